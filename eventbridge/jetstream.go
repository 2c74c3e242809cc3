package eventbridge

import (
	"context"
	"errors"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/budget"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
)

// JetStream is the Store on NATS JetStream.
type JetStream struct {
	conn      *broker.Conn
	publisher *broker.Publisher
	stream    string
}

// NewJetStream makes a Store of the stream. It creates neither stream nor consumers: that is the
// controller's part.
func NewJetStream(conn *broker.Conn, publisher *broker.Publisher, stream string) *JetStream {
	return &JetStream{conn: conn, publisher: publisher, stream: stream}
}

// Publish implements Store.
func (j *JetStream) Publish(ctx context.Context, ev *cloudevent.Event) error {
	return j.publisher.Publish(ctx, ev)
}

// PublishLegacy implements Store.
func (j *JetStream) PublishLegacy(ctx context.Context, ev *cloudevent.Event, oldType string) error {
	return j.publisher.PublishLegacy(ctx, ev, oldType)
}

// PublishAll implements Store.
func (j *JetStream) PublishAll(ctx context.Context, events []*cloudevent.Event) []error {
	return j.publisher.PublishAll(ctx, events)
}

// Connected implements Store.
func (j *JetStream) Connected() bool { return j.conn.Connected() }

// Source implements Store.
func (j *JetStream) Source(route routing.Route, memory *budget.Share) dispatch.Source {
	newSource := broker.NewSource
	if route.Delivery.OrderedBy != "" {
		newSource = broker.NewOrderedSource
	}
	return source{newSource(j.conn, j.stream, route.Consumer, route.Subscription, route.MaxInFlight).Of(route.UID).Within(memory)}
}

// DeadLetterSource implements Store.
func (j *JetStream) DeadLetterSource(route routing.Route, memory *budget.Share) dispatch.Source {
	return deadLetterSource{broker.NewDeadLetterSource(j.conn, route.Subscription, route.MaxInFlight).Within(memory)}
}

// OnDeadLettersDropped implements Store.
func (j *JetStream) OnDeadLettersDropped(f func(namespace string, deadLetters uint64)) {
	j.conn.OnDeadLettersDropped(f)
}

// ForwardRetries implements Store.
func (j *JetStream) ForwardRetries(ctx context.Context, memory *budget.Budget) {
	j.conn.ForwardRetries(ctx, j.stream, func(level string) broker.MemoryBudget { return memory.Share(level) })
}

// Streams implements storage.Streams.
func (j *JetStream) Streams() []string {
	return []string{j.stream, broker.RetryStream, broker.DeadLetterStream}
}

// Fill implements storage.Streams.
func (j *JetStream) Fill(ctx context.Context, stream string) (float64, error) {
	return j.conn.Fill(ctx, stream)
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
