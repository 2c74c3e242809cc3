package jetstream

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/quota"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/routing"
)

// Store stores events between their publisher and their sinks. It implements eventbridge.Store, quota.StorageStreams and
// quota.Stream.
type Store struct {
	conn      *broker.Conn
	publisher *broker.Publisher
	stream    string
}

// NewStore returns a Store for the stream. It creates neither stream nor consumers: the controller does.
func NewStore(conn *broker.Conn, publisher *broker.Publisher, stream string) *Store {
	return &Store{conn: conn, publisher: publisher, stream: stream}
}

// Publish implements ingress.Publisher.
func (s *Store) Publish(ctx context.Context, ev *cloudevent.Event) error {
	return s.publisher.Publish(ctx, ev)
}

// PublishLegacy implements ingress.Publisher.
func (s *Store) PublishLegacy(ctx context.Context, ev *cloudevent.Event, oldType string) error {
	return s.publisher.PublishLegacy(ctx, ev, oldType)
}

// PublishAll implements ingress.Publisher.
func (s *Store) PublishAll(ctx context.Context, events []*cloudevent.Event) []error {
	return s.publisher.PublishAll(ctx, events)
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

// Streams implements quota.StorageStreams.
func (s *Store) Streams() []string {
	return []string{s.stream, broker.RetryStream, broker.DeadLetterStream}
}

// Fill implements quota.StorageStreams.
func (s *Store) Fill(ctx context.Context, stream string) (float64, error) {
	return s.conn.Fill(ctx, stream)
}

type source struct{ *broker.Source }

// Receive implements dispatch.Source.
func (s source) Receive(ctx context.Context, stop <-chan struct{}, each func(dispatch.Message)) error {
	return s.Source.Receive(ctx, stop, func(msg *broker.Message) { each(message{msg}) })
}

type deadLetterSource struct{ *broker.DeadLetterSource }

// Receive implements dispatch.Source.
func (l deadLetterSource) Receive(ctx context.Context, stop <-chan struct{}, each func(dispatch.Message)) error {
	return l.DeadLetterSource.Receive(ctx, stop, func(msg *broker.DeadLetterMessage) { each(deadLetterMessage{msg}) })
}

// message is a dispatch.Message. It has the size of a pointer, so that an interface holds it without an allocation.
type message struct{ *broker.Message }

// StoreDeadLetter implements dispatch.Message.
func (m message) StoreDeadLetter(ctx context.Context, deadLetter dispatch.DeadLetter) error {
	return m.AddDeadLetter(ctx, broker.DeadLetter{
		Reason: deadLetter.Reason, Attempts: deadLetter.Attempts, Status: deadLetter.Status, BodyExcerpt: deadLetter.Excerpt,
	})
}

// deadLetterMessage is a dispatch.Message for the delivery of a dead letter.
type deadLetterMessage struct{ *broker.DeadLetterMessage }

var errDeadLetterAlready = errors.New("the message is a dead letter already")

// StoreDeadLetter implements dispatch.Message. It always fails, so deliveries of dead letters must have no last
// attempt.
func (deadLetterMessage) StoreDeadLetter(context.Context, dispatch.DeadLetter) error {
	return errDeadLetterAlready
}

// Use implements quota.Stream.
func (s *Store) Use(ctx context.Context) (quota.Use, error) {
	use, err := s.conn.Use(ctx, s.stream)
	return quota.Use{
		Amount: quota.Amount{Events: use.Events, Bytes: int64(use.Bytes)},
		Max:    quota.Amount{Events: uint64(use.MaxPerSubject), Bytes: use.MaxBytes},
	}, err
}

// Waiting implements quota.Stream.
func (s *Store) Waiting(ctx context.Context) ([]quota.Held, error) {
	consumers, err := s.conn.Consumers(ctx, s.stream)
	if err != nil {
		return nil, err
	}
	held := make([]quota.Held, 0, len(consumers))
	for _, consumer := range consumers {
		if name, ours := broker.SubscriptionOf(consumer); ours {
			held = append(held, quota.Held{
				Subscription: name, UID: types.UID(consumer.Metadata[broker.MetadataUID]), Ordered: consumer.Ordered,
				Amount: quota.Amount{Events: consumer.Backlog.Total()},
			})
		}
	}
	return held, nil
}

// Bytes implements quota.Stream.
func (s *Store) Bytes(ctx context.Context, subscription types.NamespacedName, enough int64) (int64, error) {
	return s.conn.HeldBytes(ctx, s.stream, routing.ConsumerName(subscription.Namespace, subscription.Name), enough)
}
