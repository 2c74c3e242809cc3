package clusterhome

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/cli/target"
	"github.com/rouse-run/rouse/dashboard"
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
		h.last.Taken = time.Now()
	}
	h.asked, h.age = time.Now(), min(max(snapshotAge, readShare*took), oldest)
}

// read asks the API server and a bridge. Without a bridge there are no numbers, and a problem that says so.
func (h *Home) read(ctx context.Context) (dashboard.Snapshot, error) {
	var (
		all                                    answers
		reading                                sync.WaitGroup
		functionsRefused, subscriptionsRefused error
	)
	reading.Go(func() { all.functions, functionsRefused = h.conn.Functions(ctx, h.namespace) })
	reading.Go(func() { all.subscriptions, subscriptionsRefused = h.conn.Subscriptions(ctx, h.namespace) })
	reading.Go(func() { all.exposed = h.conn.Exposed(ctx, h.namespace) })
	reading.Go(func() { all.known, all.problem = h.fromBridge(ctx) })
	reading.Wait()
	if err := cmp.Or(functionsRefused, subscriptionsRefused); err != nil { // the same one whichever came first
		return dashboard.Snapshot{}, err
	}
	if all.problem == nil {
		all.problem = h.addWakes(ctx, &all)
	}
	all.streams = h.fills()
	found := all.snapshot()
	found.Problems = append(found.Problems, h.missingRights(ctx)...)
	return found, nil
}

// bridgeState is what a bridge reports.
type bridgeState struct {
	client    *target.Client
	work      map[types.NamespacedName]target.Work
	wakes     map[types.NamespacedName]*activation.Wake
	schedules []target.Schedule
}

// fromBridge asks one bridge, because all report the same.
func (h *Home) fromBridge(ctx context.Context) (known bridgeState, err error) {
	if known.client, err = h.bridge(ctx, identity.ListSubscriptions(h.namespace)); err != nil {
		return known, err
	}
	work, err := known.client.Work(ctx, h.namespace)
	if err != nil {
		return known, err
	}
	known.work = make(map[types.NamespacedName]target.Work, len(work))
	for _, each := range work {
		known.work[types.NamespacedName{Namespace: each.Namespace, Name: each.Name}] = each
	}
	if h.may(ctx, identity.ListSchedules(h.namespace)) == nil { // else there are none to show
		known.schedules, err = known.client.Schedules(ctx, h.namespace)
	}
	if exit.CodeOf(err) == exit.NotFound { // an installation without them
		err = nil
	}
	return known, err
}

// wakesAtATime is how many namespaces a bridge is asked about at a time.
const wakesAtATime = 4

// addWakes asks the bridge for the last wakes of all Functions.
func (h *Home) addWakes(ctx context.Context, all *answers) error {
	all.known.wakes = map[types.NamespacedName]*activation.Wake{}
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(wakesAtATime)
	asked := map[string]bool{}
	for i := range all.functions {
		namespace := all.functions[i].Namespace
		if asked[namespace] {
			continue
		}
		asked[namespace] = true
		group.Go(func() error {
			wakes, err := all.known.client.LastWakes(ctx, namespace)
			mu.Lock()
			defer mu.Unlock()
			for name, wake := range wakes {
				all.known.wakes[types.NamespacedName{Namespace: namespace, Name: name}] = wake
			}
			return err
		})
	}
	return group.Wait()
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
