package eventbridge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/doors"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/ingress"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/eventbridge/quota"
	"github.com/rouse-run/rouse/eventbridge/timers"
	"github.com/rouse-run/rouse/eventbridge/tracecontext"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/routing"
)

// publisher stores events. It refuses new ones while the remaining storage is reserved for stored ones, adds a trace to every
// event, creates spans if there is a tracer, and records stored events in the journal.
type publisher struct {
	store   ingress.Publisher
	tracer  *tracecontext.Tracer
	journal *journal.Journal
	storage *quota.StorageMonitor // nil leaves it to the server to refuse events
	schemas Schemas               // nil allows any data
}

// check returns a *failure.InvalidEventError for an event that the schema of its type does not allow.
func (p publisher) check(ev *cloudevent.Event) error {
	if p.schemas == nil {
		return nil
	}
	return p.schemas.Check(ev)
}

func (p publisher) full() bool { return p.storage != nil && p.storage.Full() }

// Publish implements ingress.Publisher.
func (p publisher) Publish(ctx context.Context, ev *cloudevent.Event) error {
	if p.full() {
		return failure.ErrNearlyFull
	}
	if err := p.check(ev); err != nil {
		return err
	}
	publishing := p.begin(ctx, ev)
	err := p.store.Publish(ctx, ev)
	publishing.end(err)
	return err
}

// PublishLegacy implements ingress.Publisher. Both copies of an event share one span.
func (p publisher) PublishLegacy(ctx context.Context, ev *cloudevent.Event, oldType string) error {
	if p.full() {
		return failure.ErrNearlyFull
	}
	if err := p.check(ev); err != nil {
		return err
	}
	publishing := p.begin(ctx, ev)
	err := p.store.PublishLegacy(ctx, ev, oldType)
	publishing.end(err)
	return err
}

// PublishAll implements ingress.Publisher.
func (p publisher) PublishAll(ctx context.Context, events []*cloudevent.Event) []error {
	if p.full() {
		return slices.Repeat([]error{failure.ErrNearlyFull}, len(events))
	}
	if p.schemas == nil {
		return p.storeAll(ctx, events)
	}
	errs := make([]error, len(events))
	fitting, places := make([]*cloudevent.Event, 0, len(events)), make([]int, 0, len(events))
	for i, ev := range events {
		if errs[i] = p.check(ev); errs[i] == nil {
			fitting, places = append(fitting, ev), append(places, i)
		}
	}
	if len(fitting) == 0 {
		return errs
	}
	for i, err := range p.storeAll(ctx, fitting) {
		errs[places[i]] = err
	}
	return errs
}

// storeAll stores events that were checked.
func (p publisher) storeAll(ctx context.Context, events []*cloudevent.Event) []error {
	all := make([]publishing, len(events))
	for i, ev := range events {
		all[i] = p.begin(ctx, ev)
	}
	errs := p.store.PublishAll(ctx, events)
	for i := range all {
		all[i].end(errs[i])
	}
	return errs
}

// publishing is an event while it is being stored.
type publishing struct {
	event   *cloudevent.Event
	journal *journal.Journal
	began   time.Time
	span    func(error) // nil without a span
}

func (p publisher) begin(ctx context.Context, ev *cloudevent.Event) publishing {
	started := publishing{event: ev, journal: p.journal}
	if p.journal != nil {
		started.began = time.Now()
	}
	if p.tracer.Active() {
		started.span = p.tracer.Publish(ctx, ev)
	} else {
		tracecontext.Ensure(ev)
	}
	return started
}

func (p publishing) end(err error) {
	if p.span != nil {
		p.span(err)
	}
	if err == nil && p.journal != nil {
		p.journal.Add(storedRecord(p.event, p.began))
	}
}

// publishAccess decides which account may publish which events, by the operator's rules.
type publishAccess struct {
	rules    routing.Access
	verifier *identity.Verifier
	denials  *prometheus.CounterVec
}

// newPublishAccess returns nil when there are no rules and every client may publish everything. Without a reviewer no
// client can publish.
func newPublishAccess(rules routing.Access, reviewer identity.Reviewer, registerer prometheus.Registerer) *publishAccess {
	if rules.Publish == nil {
		return nil
	}
	a := &publishAccess{
		rules: rules,
		denials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rouse_eventbridge_publish_denials_total",
			Help: "Publishes that were refused by reason: unauthenticated, undecided or forbidden. Only of the last the namespace is known.",
		}, []string{"reason", "namespace"}),
	}
	if reviewer != nil {
		a.verifier = identity.New(reviewer, rules.Publish.Audience)
	}
	registerer.MustRegister(a.denials)
	return a
}

// authorizer returns nil without rules.
func (a *publishAccess) authorizer() ingress.Authorize {
	if a == nil {
		return nil
	}
	return a.authorize
}

func (a *publishAccess) authorize(ctx context.Context, token string) (ingress.Permission, error) {
	if a.verifier == nil {
		a.denials.WithLabelValues("undecided", "").Inc()
		return nil, ingress.ErrUndecided
	}
	account, err := a.verifier.Verify(ctx, token)
	switch {
	case errors.Is(err, identity.ErrUnknown):
		a.denials.WithLabelValues("unauthenticated", "").Inc()
		return nil, ingress.ErrUnauthenticated
	case err != nil:
		a.denials.WithLabelValues("undecided", "").Inc()
		return nil, ingress.ErrUndecided
	}
	return func(ev *cloudevent.Event, oldType string) error {
		if err := a.rules.MayPublish(account.Namespace, account.Name, ev.Source, ev.Type, oldType); err != nil {
			a.denials.WithLabelValues("forbidden", account.Namespace).Inc()
			return fmt.Errorf("%w: %w", ingress.ErrForbidden, err)
		}
		ev.Publisher = account.Namespace
		return nil
	}, nil
}

// reply returns an error if the sinks of a namespace may not publish the event; such a reply is never stored.
func (a *publishAccess) reply(namespace string, ev *cloudevent.Event) error {
	if a == nil {
		return nil
	}
	if err := a.rules.MayPublish(namespace, "", ev.Source, ev.Type, ""); err != nil {
		a.denials.WithLabelValues("forbidden", namespace).Inc()
		return fmt.Errorf("%w: %w", dispatch.ErrUnpublishable, err)
	}
	ev.Publisher = namespace
	return nil
}

// newDoors returns nil without Doors.
func newDoors(deps Deps, options Options, access *publishAccess, to *ingress.Handler) *doors.Doors {
	if deps.Doors == nil {
		return nil
	}
	return doors.New(doors.Deps{
		Watch: deps.Doors, Gateway: gatewayCheck(deps.Gateways, options.Gateway), Ingress: to, Allow: access.reply, Store: deps.DoorStore, ID: deps.TimerID,
		Registerer: deps.Registry, Log: deps.Log.WithName("doors"),
	}, options.Doors)
}

var errNoGateway = errors.New("the token is not a gateway's")

// gatewayCheck returns nil without a reviewer.
func gatewayCheck(reviewer identity.Reviewer, gateway types.NamespacedName) func(ctx context.Context, token string) error {
	if reviewer == nil {
		return nil
	}
	verifier := identity.New(reviewer, door.TokenAudience)
	return func(ctx context.Context, token string) error {
		account, err := verifier.Verify(ctx, token)
		if err == nil && (account.Namespace != gateway.Namespace || account.Name != gateway.Name) {
			err = errNoGateway
		}
		return err
	}
}

// newTimers returns nil without a store.
func newTimers(deps Deps, options timers.Options, access *publishAccess, publishes publisher) *timers.Timers {
	if deps.Timers == nil {
		return nil
	}
	return timers.New(timers.Deps{
		Schedules: deps.Schedules, Store: deps.Timers, ID: deps.TimerID, Publish: publishes.Publish, Allow: access.reply,
		Registerer: deps.Registry, Log: deps.Log.WithName("timers"),
	}, options)
}

// delayOf returns nil without timers.
func delayOf(t *timers.Timers) ingress.Delay {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, ev *cloudevent.Event, due time.Time) (id string, later bool, err error) {
		stored, later, err := t.Delay(ctx, ev, due)
		return stored.ID, later, err
	}
}

// checkedDelay refuses at once what could not be published when it is due.
func checkedDelay(delay ingress.Delay, check func(*cloudevent.Event) error) ingress.Delay {
	if delay == nil {
		return nil
	}
	return func(ctx context.Context, ev *cloudevent.Event, due time.Time) (id string, later bool, err error) {
		if err := check(ev); err != nil {
			return "", false, err
		}
		return delay(ctx, ev, due)
	}
}

// repliesAtATime bounds how many replies a replica stores concurrently, so that publishers find room among the events
// that wait for confirmation.
const repliesAtATime = 32

func newReplyPlaces() *fair.Pool {
	return fair.NewPool(fair.Limits{Total: repliesAtATime, Waiting: math.MaxInt32}) // other limits bound the calls that produced the replies
}

// replies publishes the replies of sinks.
type replies struct {
	to        publisher
	access    *publishAccess
	places    *fair.Pool // per namespace
	namespace string     // of the sink
}

// Publish implements dispatch.Replies.
func (r replies) Publish(ctx context.Context, reply *cloudevent.Event) error {
	if err := r.access.reply(r.namespace, reply); err != nil {
		return err
	}
	if err := r.places.Acquire(ctx.Done(), r.namespace, 1); err != nil {
		return err
	}
	defer r.places.Release(r.namespace, 1)
	err := r.to.Publish(ctx, reply)
	if _, invalid := errors.AsType[*failure.InvalidEventError](err); invalid || errors.Is(err, failure.ErrTooLarge) {
		return fmt.Errorf("%w: %w", dispatch.ErrUnpublishable, err)
	}
	return err
}
