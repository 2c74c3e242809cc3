package broker

import (
	"cmp"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

// TypeUndecodable is the type of the event that stands for a dead letter whose message was
// no CloudEvent. Its data are the bytes of that message.
const TypeUndecodable = "run.rouse.deadletter.undecodable.v1"

// Event is the event as its publisher wrote it, with the extensions that describe why it is
// a dead letter. They override its own of the same names, which may be those of an
// earlier dead letter. Every dead letter has an event.
func (m *DeadLetterMessage) Event() (cloudevent.Event, error) {
	ev, err := m.Message.Event()
	if err != nil {
		ev = m.undecodable()
	}
	explain(&ev, m.raw.Header)
	return ev, nil
}

func (m *DeadLetterMessage) undecodable() cloudevent.Event {
	subscription := deadLetterSubscription(m.raw.Subject)
	return cloudevent.Event{
		ID:              DeadLetterStream + "/" + strconv.FormatUint(m.Sequence(), 10),
		Source:          "/namespaces/" + subscription.Namespace + "/subscriptions/" + subscription.Name,
		Type:            TypeUndecodable,
		DataContentType: "application/octet-stream",
		Data:            m.raw.Data,
	}
}

// explain takes the extensions from the headers, which a dead letter has even if its body
// could not hold them.
func explain(ev *cloudevent.Event, header nats.Header) {
	if reason, message, ok := reasonOf(header); ok {
		ev.SetExtension(ExtensionDeadLetterReason, string(reason))
		ev.SetExtension(ExtensionDeadLetterMessage, message)
	}
	for extension, name := range map[string]string{
		ExtensionDeadLetterAttempts:     HeaderAttempts,
		ExtensionDeadLetterStatus:       HeaderDeadLetterStatus,
		ExtensionDeadLetterExcerpt:      HeaderDeadLetterExcerpt,
		ExtensionDeadLetterSubscription: HeaderDeadLetterSubscription,
		ExtensionDeadLetterTime:         HeaderDeadLetterTime,
	} {
		if _, ok := header[name]; !ok {
			continue // a dead letter of another client
		}
		value := printable(header.Get(name))
		if value == "" || extension == ExtensionDeadLetterStatus && value == "0" { // there was no answer
			ev.DeleteExtension(extension)
			continue
		}
		ev.SetExtension(extension, value)
	}
}

// reasonOf reads why an event is a dead letter, and the sentence for it. Earlier versions stored
// the sentence in place of the code; another client may have stored neither.
func reasonOf(header nats.Header) (reason failure.Reason, message string, ok bool) {
	_, ok = header[HeaderDeadLetterReason]
	text := printable(header.Get(HeaderDeadLetterReason))
	if _, coded := header[HeaderDeadLetterMessage]; coded && text != "" {
		return failure.Reason(text), cmp.Or(printable(header.Get(HeaderDeadLetterMessage)), failure.Unknown.Message()), ok
	}
	reason, message = failure.OfSentence(text)
	return reason, message, ok
}
