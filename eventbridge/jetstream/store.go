package jetstream

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/ingress"
	"github.com/rouse-run/rouse/eventbridge/quota"
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

// message is a dispatch.Message. It is as large as a pointer, so that an interface holds it without an allocation.
type message struct{ *broker.Message }

// StoreDeadLetter implements dispatch.Message.
func (m message) StoreDeadLetter(ctx context.Context, deadLetter dispatch.DeadLetter) error {
	return m.AddDeadLetter(ctx, broker.DeadLetter{
		Reason: deadLetter.Reason, Attempts: deadLetter.Attempts, Status: deadLetter.Status, BodyExcerpt: deadLetter.Excerpt,
	})
}

// deadLetterMessage is the same for a delivery of a dead letter.
type deadLetterMessage struct{ *broker.DeadLetterMessage }

var errDeadLetterAlready = errors.New("the message is a dead letter already")

// StoreDeadLetter implements dispatch.Message. A dead letter becomes no other, so its deliveries are to be endless.
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

// mappedError is an error of the broker that its caller knows as another. It reads as the broker wrote it.
type mappedError struct{ broker, known error }

// Error implements error.
func (e *mappedError) Error() string { return e.broker.Error() }

// Unwrap is for errors.Is and errors.As.
func (e *mappedError) Unwrap() []error { return []error{e.known, e.broker} }

// mapping is an error of the broker and the one by which a caller knows it.
type mapping struct{ broker, known error }

// The first that fits counts.
var (
	ingressErrors = []mapping{
		{broker.ErrTooLarge, ingress.ErrTooLarge},
		{broker.ErrBusy, ingress.ErrBusy},
		{broker.ErrNotConnected, ingress.ErrNotConnected},
		{broker.ErrStorageFull, ingress.ErrStorageFull},
		{broker.ErrNoStream, ingress.ErrNoStream},
		{broker.ErrInsufficientResources, ingress.ErrInsufficientResources},
		{broker.ErrInProcess, ingress.ErrInProcess},
		{broker.ErrTimeout, ingress.ErrTimeout},
	}
	adminErrors = []mapping{
		{broker.ErrDeadLetterNotFound, admin.ErrNotFound},
		{broker.ErrConsumerNotFound, admin.ErrNoConsumer},
		{broker.ErrStorageFull, admin.ErrStorageFull},
		{broker.ErrNotConnected, admin.ErrUnavailable},
		{broker.ErrNoStream, admin.ErrUnavailable},
		{broker.ErrTimeout, admin.ErrUnavailable},
		{broker.ErrBusy, admin.ErrUnavailable},
	}
)

// publishError maps an error of the publisher.
func publishError(err error) error {
	if err == nil {
		return nil
	}
	if invalid, ok := errors.AsType[*broker.InvalidEventError](err); ok {
		return &mappedError{err, &ingress.InvalidEventError{Reason: invalid.Reason}}
	}
	if known := find(ingressErrors, err); known != nil {
		return &mappedError{err, known}
	}
	if answer, ok := errors.AsType[*broker.APIError](err); ok {
		return &mappedError{err, &ingress.StatusError{Status: answer.Code, Reason: answer.Description}}
	}
	return err
}

// adminError maps an error of what the admin API asks for.
func adminError(err error) error {
	if known := find(adminErrors, err); known != nil {
		return &mappedError{err, known}
	}
	return err
}

// find is nil when none fits.
func find(mappings []mapping, err error) error {
	for _, m := range mappings {
		if errors.Is(err, m.broker) {
			return m.known
		}
	}
	return nil
}
