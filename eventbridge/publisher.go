package eventbridge

import (
	"context"

	"github.com/rouse-run/rouse/eventbridge/ingress"
	"github.com/rouse-run/rouse/eventbridge/storage"
	"github.com/rouse-run/rouse/eventbridge/tracing"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// publisher makes spans of what it stores, if anybody wants them.
func publisher(deps Deps) ingress.Publisher {
	if deps.Tracer == nil {
		return deps.Store
	}
	return tracedPublisher{store: deps.Store, tracer: deps.Tracer}
}

type tracedPublisher struct {
	store  Store
	tracer *tracing.Tracer
}

// Publish implements ingress.Publisher.
func (p tracedPublisher) Publish(ctx context.Context, ev *cloudevent.Event) error {
	end := p.tracer.Publish(ctx, ev)
	err := p.store.Publish(ctx, ev)
	end(err)
	return err
}

// PublishLegacy implements ingress.Publisher. Both copies of an event are one span's.
func (p tracedPublisher) PublishLegacy(ctx context.Context, ev *cloudevent.Event, oldType string) error {
	end := p.tracer.Publish(ctx, ev)
	err := p.store.PublishLegacy(ctx, ev, oldType)
	end(err)
	return err
}

// PublishAll implements ingress.Publisher.
func (p tracedPublisher) PublishAll(ctx context.Context, events []*cloudevent.Event) []error {
	ends := make([]func(error), len(events))
	for i, ev := range events {
		ends[i] = p.tracer.Publish(ctx, ev)
	}
	errs := p.store.PublishAll(ctx, events)
	for i, end := range ends {
		end(errs[i])
	}
	return errs
}

// bounded refuses what would take the room of events that are stored already.
func bounded(publisher ingress.Publisher, storage *storage.Monitor) ingress.Publisher {
	if storage == nil {
		return publisher
	}
	return boundedPublisher{publisher: publisher, storage: storage}
}

type boundedPublisher struct {
	publisher ingress.Publisher
	storage   *storage.Monitor
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
