package broker

import (
	"cmp"
	"context"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// oldSource is the source of events whose type is in Kyma's first format. The
	// application is a part of the type.
	oldSource = "kyma"
	// oldMessageID ends what duplicates of such a copy are recognised by. It begins
	// with that of the event, because ids are unique within the event's source only.
	oldMessageID = "-old"
)

// PublishLegacy is Publish for an event that consumers may also know by a type
// in Kyma's first format, as routing.OldType makes it; none when empty. A copy
// with the same id goes there. The stream keeps what consumers wait for, so the
// copy is stored only where somebody asks for it.
func (p *Publisher) PublishLegacy(ctx context.Context, e *cloudevent.Event, oldType string) error {
	message, err := encode(e)
	if err != nil {
		return err
	}
	messages := []*nats.Msg{message}
	if oldType != "" {
		messages = append(messages, oldCopy(e, message, oldType)...)
	}
	if p.conn.Connected() && slices.ContainsFunc(messages, p.tooLarge) {
		return ErrTooLarge
	}
	var confirmations []jetstream.PubAckFuture
	for _, m := range messages {
		confirmation, failed := p.sendMessage(m)
		if failed != nil {
			err = failed
			break
		}
		confirmations = append(confirmations, confirmation)
	}
	for _, confirmation := range confirmations {
		err = cmp.Or(err, p.await(ctx, confirmation))
	}
	return err
}

// oldCopy is the message for consumers of the old type: none where the server
// would not store it, because nobody can ask for it either.
func oldCopy(e *cloudevent.Event, message *nats.Msg, oldType string) []*nats.Msg {
	subject := routing.SubjectPrefix + "." + oldType
	if checkSubject(subject) != nil {
		return nil
	}
	old := *e
	old.Source = oldSource
	copied := encodeAt(&old, address{subject: subject, wireType: oldType})
	copied.Header.Set(jetstream.MsgIDHeader, message.Header.Get(jetstream.MsgIDHeader)+oldMessageID)
	return []*nats.Msg{copied}
}
