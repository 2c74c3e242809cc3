package eventbridge

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/ingress"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/eventbridge/quota"
	"github.com/rouse-run/rouse/eventbridge/tracecontext"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/routing"
)

// observed adds a trace to every event, creates spans if there is a tracer, and records stored events in the journal.
type observed struct {
	store   ingress.Publisher
	tracer  *tracecontext.Tracer
	journal *journal.Journal
}

// Publish implements ingress.Publisher.
func (o observed) Publish(ctx context.Context, ev *cloudevent.Event) error {
	publishing := o.begin(ctx, ev)
	err := o.store.Publish(ctx, ev)
	publishing.end(err)
	return err
}

// PublishLegacy implements ingress.Publisher. Both copies of an event share one span.
func (o observed) PublishLegacy(ctx context.Context, ev *cloudevent.Event, oldType string) error {
	publishing := o.begin(ctx, ev)
	err := o.store.PublishLegacy(ctx, ev, oldType)
	publishing.end(err)
	return err
}

// PublishAll implements ingress.Publisher.
func (o observed) PublishAll(ctx context.Context, events []*cloudevent.Event) []error {
	all := make([]publishing, len(events))
	for i, ev := range events {
		all[i] = o.begin(ctx, ev)
	}
	errs := o.store.PublishAll(ctx, events)
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

func (o observed) begin(ctx context.Context, ev *cloudevent.Event) publishing {
	p := publishing{event: ev, journal: o.journal}
	if o.journal != nil {
		p.began = time.Now()
	}
	if o.tracer.Active() {
		p.span = o.tracer.Publish(ctx, ev)
	} else {
		tracecontext.Ensure(ev)
	}
	return p
}

func (p publishing) end(err error) {
	if p.span != nil {
		p.span(err)
	}
	if err == nil && p.journal != nil {
		p.journal.Add(storedRecord(p.event, p.began))
	}
}

// bounded refuses new events while the remaining storage is reserved for stored ones.
func bounded(publisher ingress.Publisher, storage *quota.StorageMonitor) ingress.Publisher {
	if storage == nil {
		return publisher
	}
	return boundedPublisher{publisher: publisher, storage: storage}
}

type boundedPublisher struct {
	publisher ingress.Publisher
	storage   *quota.StorageMonitor
}

// Publish implements ingress.Publisher.
func (p boundedPublisher) Publish(ctx context.Context, ev *cloudevent.Event) error {
	if p.storage.Full() {
		return failure.ErrNearlyFull
	}
	return p.publisher.Publish(ctx, ev)
}

// PublishLegacy implements ingress.Publisher.
func (p boundedPublisher) PublishLegacy(ctx context.Context, ev *cloudevent.Event, oldType string) error {
	if p.storage.Full() {
		return failure.ErrNearlyFull
	}
	return p.publisher.PublishLegacy(ctx, ev, oldType)
}

// PublishAll implements ingress.Publisher.
func (p boundedPublisher) PublishAll(ctx context.Context, events []*cloudevent.Event) []error {
	if !p.storage.Full() {
		return p.publisher.PublishAll(ctx, events)
	}
	errs := make([]error, len(events))
	for i := range errs {
		errs[i] = failure.ErrNearlyFull
	}
	return errs
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

// repliesAtATime bounds how many replies a replica stores concurrently, so that publishers find room among the events
// that wait for confirmation.
const repliesAtATime = 256

func newReplyPlaces() *fair.Pool {
	return fair.NewPool(fair.Limits{Total: repliesAtATime, Waiting: math.MaxInt32}) // other limits bound the calls that produced the replies
}

// replies publishes the replies of sinks.
type replies struct {
	to        observed
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
