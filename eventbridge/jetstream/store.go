package jetstream

import (
	"context"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/routing"
)

// Store is where events are between their publisher and their sinks. It implements eventbridge.Store, storage.Streams and
// quota.Stream.
type Store struct {
	conn      *broker.Conn
	publisher *broker.Publisher
	stream    string
}

// NewStore makes a Store of the stream. It creates neither stream nor consumers: that is the
// controller's part.
func NewStore(conn *broker.Conn, publisher *broker.Publisher, stream string) *Store {
	return &Store{conn: conn, publisher: publisher, stream: stream}
}

// Publish implements ingress.Publisher.
func (s *Store) Publish(ctx context.Context, ev *cloudevent.Event) error {
	return publishError(s.publisher.Publish(ctx, ev))
}

// PublishLegacy implements ingress.Publisher.
func (s *Store) PublishLegacy(ctx context.Context, ev *cloudevent.Event, oldType string) error {
	return publishError(s.publisher.PublishLegacy(ctx, ev, oldType))
}

// PublishAll implements ingress.Publisher.
func (s *Store) PublishAll(ctx context.Context, events []*cloudevent.Event) []error {
	errs := s.publisher.PublishAll(ctx, events)
	for i, err := range errs {
		errs[i] = publishError(err)
	}
	return errs
}

// Connected implements eventbridge.Store.
func (s *Store) Connected() bool { return s.conn.Connected() }

// Source implements eventbridge.Store.
func (s *Store) Source(route routing.Route, memory *fair.Share, limit dispatch.HoldLimit) dispatch.Source {
	newSource := broker.NewSource
	if route.Delivery.OrderedBy != "" {
		newSource = broker.NewOrderedSource
	}
	received := newSource(s.conn, s.stream, route.Consumer, route.Subscription, route.MaxInFlight).Of(route.UID).Within(memory)
	return source{received.Holding(broker.HoldLimit(limit))}
}

// DeadLetterSource implements eventbridge.Store.
func (s *Store) DeadLetterSource(route routing.Route, memory *fair.Share) dispatch.Source {
	return deadLetterSource{broker.NewDeadLetterSource(s.conn, route.Subscription, route.MaxInFlight).Within(memory)}
}

// OnDeadLettersDropped implements eventbridge.Store.
func (s *Store) OnDeadLettersDropped(f func(namespace string, deadLetters uint64)) {
	s.conn.OnDeadLettersDropped(f)
}

// ForwardRetries implements eventbridge.Store.
func (s *Store) ForwardRetries(ctx context.Context, memory *fair.Budget) {
	s.conn.ForwardRetries(ctx, s.stream, func(level string) broker.MemoryBudget { return memory.Share(level) })
}

// Streams implements storage.Streams.
func (s *Store) Streams() []string {
	return []string{s.stream, broker.RetryStream, broker.DeadLetterStream}
}

// Fill implements storage.Streams.
func (s *Store) Fill(ctx context.Context, stream string) (float64, error) {
	return s.conn.Fill(ctx, stream)
}
