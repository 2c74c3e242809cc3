package eventbridge

import (
	"context"
	"time"

	"github.com/rouse-run/rouse/eventbridge/ingress"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/eventbridge/quota"
	"github.com/rouse-run/rouse/eventbridge/tracecontext"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// observed gives every event a trace, makes spans of what is stored if a tracer is there, and has the journal remember it.
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

// PublishLegacy implements ingress.Publisher. Both copies of an event are one span's.
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

// publishing is an event that is being stored.
type publishing struct {
	event   *cloudevent.Event
	journal *journal.Journal
	began   time.Time
	span    func(error) // nil without one
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

// bounded refuses new events while the free storage is reserved for stored ones.
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
		return ingress.ErrNearlyFull
	}
	return p.publisher.Publish(ctx, ev)
}

// PublishLegacy implements ingress.Publisher.
func (p boundedPublisher) PublishLegacy(ctx context.Context, ev *cloudevent.Event, oldType string) error {
	if p.storage.Full() {
		return ingress.ErrNearlyFull
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
		errs[i] = ingress.ErrNearlyFull
	}
	return errs
}
