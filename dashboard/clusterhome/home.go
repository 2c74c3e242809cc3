package clusterhome

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/dashboard"
	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/internal/activation"
)

const (
	// snapshotAge is how long all pages show what the API server and the bridges have answered, and longer where the answers take long: a
	// home reads for a tenth of the time at most.
	snapshotAge = 2 * time.Second
	readShare   = 10
	oldest      = 30 * time.Second
	readTimeout = 20 * time.Second
)

// Home is the dashboard's home for a cluster: what the user of its connection may read.
type Home struct {
	conn      *target.Connection
	objects   *target.Objects
	namespace string // empty for all
	served    *served

	mu    sync.Mutex
	asked time.Time
	age   time.Duration // after which it is read again
	// reading reports that it is being read.
	reading bool
	last    dashboard.Snapshot
	err     error

	login sync.Mutex
	found time.Time
	apis  []target.Admin
}

// New returns the home of a cluster, for a namespace or for all when it is empty.
func New(conn *target.Connection, objects *target.Objects, namespace string) *Home {
	return &Home{conn: conn, objects: objects, namespace: namespace}
}

// Provide sets what the home provides.
func (h *Home) Provide(deps *dashboard.Deps) {
	deps.State, deps.Events, deps.Publisher, deps.Caller = h, h, h, h
	deps.Lines, deps.DeadLetters = lines{h}, deadLetters{h}
	deps.Manager, deps.Author, deps.Doctor = h, h, h
}

// Check fails when the user may not read what the pages show first.
func (h *Home) Check(ctx context.Context) error {
	_, err := h.read(ctx)
	return err
}

// loginAge is how long the addresses of the bridges, and the login to them, are used again.
const loginAge = 20 * time.Second

// admins returns the admin APIs of all bridges.
func (h *Home) admins(ctx context.Context) ([]target.Admin, error) {
	if h.served != nil {
		return h.served.bridges(ctx)
	}
	h.login.Lock()
	defer h.login.Unlock()
	if time.Since(h.found) < loginAge {
		return h.apis, nil
	}
	apis, err := h.conn.Admins(ctx)
	if err == nil {
		h.apis, h.found = apis, time.Now()
	}
	return apis, err
}

// Snapshot implements dashboard.State. Answers that are old are shown while others are read, unless they are so old that nobody has looked.
func (h *Home) Snapshot(ctx context.Context, _ dashboard.User) (dashboard.Snapshot, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch age := time.Since(h.asked); {
	case age >= oldest+h.age:
		found, took, err := h.timed(ctx)
		if ctx.Err() != nil {
			return h.last, ctx.Err() // the failure concerns this request alone
		}
		h.keep(found, took, err)
	case age >= h.age && !h.reading:
		h.reading = true
		go func() {
			found, took, err := h.timed(context.WithoutCancel(ctx))
			h.mu.Lock()
			defer h.mu.Unlock()
			h.reading = false
			h.keep(found, took, err)
		}()
	}
	return h.last, refused(h.err)
}

// timed reads, and returns how long that took.
func (h *Home) timed(ctx context.Context) (dashboard.Snapshot, time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	began := time.Now()
	found, err := h.read(ctx)
	return found, time.Since(began), err
}

// keep keeps what was read. The caller holds the lock.
func (h *Home) keep(found dashboard.Snapshot, took time.Duration, err error) {
	if h.err = err; err == nil {
		h.last = found
	}
	h.asked, h.age = time.Now(), min(max(snapshotAge, readShare*took), oldest)
}

// read asks the API server and a bridge. Without a bridge there are no numbers, and a problem that says so.
func (h *Home) read(ctx context.Context) (dashboard.Snapshot, error) {
	functions, err := h.conn.Functions(ctx, h.namespace)
	if err != nil {
		return dashboard.Snapshot{}, err
	}
	subscriptions, err := h.conn.Subscriptions(ctx, h.namespace)
	if err != nil {
		return dashboard.Snapshot{}, err
	}
	found := dashboard.Snapshot{
		Functions: []dashboard.Function{}, Subscriptions: []dashboard.Subscription{}, Exposures: []dashboard.Exposure{},
		Schedules: []admin.Schedule{}, Streams: h.fills(), Problems: []dashboard.Problem{},
	}
	known, problem := h.fromBridge(ctx, functions)
	if problem != nil {
		found.Problems = append(found.Problems, dashboard.Problem{
			Object: "Admin API", Message: problem.Error(), Remedy: "without it there are no backlogs, events and dead letters", Warning: true,
		})
	}
	found.Problems = append(found.Problems, h.missingRights(ctx)...)
	exposed := h.conn.Exposed(ctx, h.namespace)
	for i := range functions {
		found.Functions = append(found.Functions, shownFunction(&functions[i], subscriptions, known, exposed))
	}
	for i := range subscriptions {
		found.Subscriptions = append(found.Subscriptions, shownSubscription(&subscriptions[i], functions, known))
	}
	for _, each := range known.schedules {
		found.Schedules = append(found.Schedules, admin.Schedule(each))
	}
	return found, nil
}

// bridgeState is what a bridge reports.
type bridgeState struct {
	work      map[types.NamespacedName]target.Work
	wakes     map[types.NamespacedName]*activation.Wake
	schedules []target.Schedule
}

// fromBridge asks one bridge, because all report the same.
func (h *Home) fromBridge(ctx context.Context, functions []target.Function) (bridgeState, error) {
	known := bridgeState{work: map[types.NamespacedName]target.Work{}, wakes: map[types.NamespacedName]*activation.Wake{}}
	bridge, err := h.bridge(ctx, identity.ListSubscriptions(h.namespace))
	if err != nil {
		return known, err
	}
	work, err := bridge.Work(ctx, h.namespace)
	if err != nil {
		return known, err
	}
	for _, each := range work {
		known.work[types.NamespacedName{Namespace: each.Namespace, Name: each.Name}] = each
	}
	asked := map[string]bool{}
	for i := range functions {
		namespace := functions[i].Namespace
		if asked[namespace] {
			continue
		}
		asked[namespace] = true
		wakes, err := bridge.LastWakes(ctx, namespace)
		if err != nil {
			return known, err
		}
		for name, wake := range wakes {
			known.wakes[types.NamespacedName{Namespace: namespace, Name: name}] = wake
		}
	}
	if h.may(ctx, identity.ListSchedules(h.namespace)) == nil { // else there are none to show
		known.schedules, err = bridge.Schedules(ctx, h.namespace)
	}
	if exit.CodeOf(err) == exit.NotFound { // an installation without them
		err = nil
	}
	return known, err
}

// bridge returns a client of one of the bridges, for a user with a right.
func (h *Home) bridge(ctx context.Context, right identity.Right) (*target.Client, error) {
	if err := h.may(ctx, right); err != nil {
		return nil, err
	}
	admins, err := h.admins(ctx)
	if err != nil {
		return nil, err
	}
	return target.New(admins[0]), nil
}

func shownFunction(
	fn *target.Function, subscriptions []target.Subscription, known bridgeState, exposed map[types.NamespacedName][]string,
) dashboard.Function {
	name := types.NamespacedName{Namespace: fn.Namespace, Name: fn.Name}
	shown := dashboard.Function{
		Namespace: fn.Namespace, Name: fn.Name, Runtime: fn.Runtime, Phase: fn.Phase, Problem: fn.LastError, Older: fn.Older,
		Desired: fn.Desired, Ready: fn.Ready, Min: fn.Min, Max: fn.Max, URL: fn.URL, Exposed: exposed[name], LastWake: known.wakes[name],
	}
	backlog := 0
	for i := range subscriptions {
		work, is := known.work[types.NamespacedName{Namespace: subscriptions[i].Namespace, Name: subscriptions[i].Name}]
		if is && subscriptions[i].LeadsTo(fn) {
			backlog += int(work.Backlog + work.AckPending + work.WaitingRetries)
			shown.Backlog = &backlog
		}
	}
	return shown
}

func shownSubscription(sub *target.Subscription, functions []target.Function, known bridgeState) dashboard.Subscription {
	work := known.work[types.NamespacedName{Namespace: sub.Namespace, Name: sub.Name}]
	shown := dashboard.Subscription{
		Namespace: sub.Namespace, Name: sub.Name, Source: sub.Source, Types: sub.Types, TypeMatching: eventingv1alpha2.TypeMatching(sub.TypeMatching),
		Sink: sub.Sink, State: sub.State, Message: sub.Message,
		Backlog: work.Backlog, InFlight: work.AckPending, Retries: work.WaitingRetries, DeadLetters: work.DeadLetters,
	}
	if at := slices.IndexFunc(functions, func(f target.Function) bool { return sub.LeadsTo(&f) }); at >= 0 {
		shown.Sink, shown.Function = functions[at].Namespace+"/"+functions[at].Name, true
	}
	return shown
}

// Function implements dashboard.State.
func (h *Home) Function(ctx context.Context, user dashboard.User, name types.NamespacedName) (dashboard.FunctionDetail, error) {
	all, err := h.Snapshot(ctx, user)
	if err != nil {
		return dashboard.FunctionDetail{}, err
	}
	detail, err := dashboard.DetailOf(all.Functions, name)
	if err != nil {
		return detail, err
	}
	if scaling, err := h.conn.Scaling(ctx, name.Namespace, name.Name); err == nil && scaling != nil {
		if detail.Backlog != nil {
			waiting := uint64(*detail.Backlog)
			scaling.Waiting = &waiting
		}
		detail.Why = scaling.Explain(time.Now())
	} // else it is not explained
	fn, err := h.objects.Function(ctx, name.Namespace, name.Name)
	if err != nil {
		return detail, refused(err)
	}
	detail.Describe(&fn.Spec)
	h.addStatus(ctx, &detail, &fn)
	return detail, nil
}

// refused returns an error whose text is for the user, as all of package target are.
func refused(err error) error {
	_, known := errors.AsType[dashboard.Error](err)
	switch {
	case err == nil, known:
		return err
	case exit.CodeOf(err) == exit.NotFound:
		return dashboard.Error{Status: http.StatusNotFound, Text: err.Error()}
	}
	return dashboard.Error{Status: http.StatusBadGateway, Text: err.Error()}
}
