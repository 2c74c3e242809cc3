package jetstream

import (
	"context"
	"errors"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/broker"
)

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
