package broker

import (
	"cmp"
	"context"

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
// copy is stored only where a consumer asks for it.
func (p *Publisher) PublishLegacy(ctx context.Context, e *cloudevent.Event, oldType string) error {
	message, err := encode(e)
	if err != nil {
		return err
	}
	messages := []*nats.Msg{message}
	if oldType != "" {
		messages = append(messages, oldCopy(e, message, oldType)...)
	}
	for _, m := range messages {
		if err := p.check(m); err != nil {
			return err
		}
	}
	errs := make([]error, len(messages))
	p.publishMessages(ctx, messages, errs)
	return cmp.Or(errs...)
}

// oldCopy is the message for consumers of the old type: none where the server
// would not store it, because no consumer can ask for it either.
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
