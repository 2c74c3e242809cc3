package broker

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
)

// A stored event is structured JSON. Some attributes are repeated as headers for
// readers that do not decode it; the body is what counts.
const (
	// ExtensionOriginalType holds the type as its publisher wrote it, while the
	// stored event's type is the subject.
	ExtensionOriginalType = "originaltype"

	headerContentType = "Content-Type"
	headerAttribute   = "ce-"
	headerSpecVersion = headerAttribute + "specversion"
	headerType        = headerAttribute + "type"
	headerSource      = headerAttribute + "source"
	headerID          = headerAttribute + "id"

	specVersion = "1.0"

	// attributesSize is the space for the attributes of a usual event.
	attributesSize = 512
	// extensionsSize is the number of extensions that a usual event has at most.
	extensionsSize = 8
)

// encode turns an event into the message that is stored for it, and leaves the
// event as it is. Its errors are an *InvalidEventError; whatever it encodes can be
// decoded.
func encode(e *cloudevent.Event) (*nats.Msg, error) {
	if err := errors.Join(e.Validate(), e.CheckText()); err != nil {
		return nil, &InvalidEventError{Reason: err.Error()}
	}
	address, err := addressOf(e.Source, e.Type)
	if err != nil {
		return nil, err
	}
	return encodeAt(e, address), nil
}

// encodeAt is encode for a valid event whose address is known.
func encodeAt(e *cloudevent.Event, address address) *nats.Msg {
	stored := *e
	stored.Type = address.wireType
	var buffer [extensionsSize]cloudevent.Extension
	stored.Extensions = append(buffer[:0], e.Extensions...)
	if address.keepOriginal {
		stored.SetExtension(ExtensionOriginalType, e.Type)
	} else {
		stored.DeleteExtension(ExtensionOriginalType)
	}
	body := stored.AppendStructured(make([]byte, 0, len(stored.Data)+attributesSize))
	return &nats.Msg{Subject: address.subject, Header: headers(&stored, messageID(address.subject, e)), Data: body}
}

func headers(e *cloudevent.Event, messageID string) nats.Header {
	values := [...]string{specVersion, e.Type, e.Source, e.ID, messageID, e.DataContentType}
	header := make(nats.Header, len(values))
	for i, name := range [...]string{headerSpecVersion, headerType, headerSource, headerID, jetstream.MsgIDHeader, headerContentType} {
		if values[i] != "" {
			header[name] = values[i : i+1 : i+1]
		}
	}
	return header
}

// messageID is what duplicates are recognised by: source and id, which identify an event,
// and what its publisher needs a right for, so that no one can send another's event first
// and have it dropped as a repeat: the subject and, where publishers show who they are,
// their namespace.
func messageID(subject string, e *cloudevent.Event) string {
	const size = 16
	var buffer [512]byte
	text := append(buffer[:0], subject...) // without control characters, as is a namespace
	text = append(append(text, 0), e.Publisher...)
	text = append(append(text, 0), e.Source...)
	text = append(append(text, 0), e.ID...)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:size])
}

// decode turns a stored message back into its event, with the type that its
// publisher gave it. Besides what encode writes it takes what Kyma writes, and
// CloudEvents in binary mode. Its errors are ErrUndecodable.
func decode(header nats.Header, body []byte) (cloudevent.Event, error) {
	decoded, err := cloudevent.FromStructured(body)
	if errors.Is(err, cloudevent.ErrNotStructured) && cloudevent.IsBinary(header) {
		decoded, err = cloudevent.FromBinary(header, body)
	}
	if err == nil {
		restoreType(&decoded)
		err = decoded.Validate()
	}
	if err != nil {
		return cloudevent.Event{}, fmt.Errorf("%w: %w", ErrUndecodable, err)
	}
	return decoded, nil
}

// restoreType gives the event the type that its publisher wrote. Without the extension it cuts the
// subject's prefix off the stored type.
func restoreType(e *cloudevent.Event) {
	if original := e.Extension(ExtensionOriginalType); strings.TrimSpace(original) != "" {
		e.Type = original
		return
	}
	prefix := routing.SubjectPrefix + "." + routing.CleanSource(e.Source) + "."
	if rest, ok := strings.CutPrefix(e.Type, prefix); ok && rest != "" {
		e.Type = rest
	}
}

// address is where an event is stored and how its type is written there.
type address struct {
	subject      string
	wireType     string
	keepOriginal bool // the publisher's type travels as an extension
}

func addressOf(source, eventType string) (address, error) {
	if routing.IsOldType(eventType) {
		clean, err := routing.CleanOldType(eventType)
		if err != nil {
			return address{}, &InvalidEventError{Reason: err.Error()}
		}
		subject := routing.SubjectPrefix + "." + clean
		return address{subject: subject, wireType: clean}, checkSubject(subject)
	}
	subject := routing.Subject(source, eventType, false)
	if routing.IsRedelivery(subject) {
		return address{}, &InvalidEventError{Reason: "event source is reserved: " + source}
	}
	if routing.HasEmptySegment(subject) {
		return address{}, &InvalidEventError{Reason: "event type cannot have empty segments after cleaning: " + subject}
	}
	return address{subject: subject, wireType: subject, keepOriginal: true}, checkSubject(subject)
}

// checkSubject refuses what the server would not store under its subject.
func checkSubject(subject string) error {
	if len(subject) > routing.MaxSubject {
		return &InvalidEventError{Reason: "event source and type are too long"}
	}
	if strings.ContainsFunc(subject, unicode.IsControl) {
		return &InvalidEventError{Reason: "event source and type cannot have control characters"}
	}
	return nil
}

// deadLetterReserve is what a dead letter adds to its event at most. Events that
// would not fit the server with it are refused, so that none is stored that
// could not become a dead letter.
const deadLetterReserve = 4 << 10

// ExpectEvents sets how large events may be as publishers send them. It logs at each
// connect if the server does not take all of them.
func (p *Publisher) ExpectEvents(size int64) {
	p.conn.OnConnect(func() {
		largest := p.largest()
		if needed := encodedSize(size); needed > largest {
			p.conn.log.Info("NATS refuses the largest events that publishers may send: raise its max_payload or lower --max-request-size",
				"maxRequestSize", size, "neededMaxPayload", needed+deadLetterReserve, "maxPayload", largest+deadLetterReserve)
		}
	})
}

// largest returns the maximum size of a message in bytes.
func (p *Publisher) largest() int64 { return p.conn.nc.MaxPayload() - deadLetterReserve }

// encodedSize is what an event may need that is sent with so many bytes: data that
// are no text become base64, and the attributes come to them.
func encodedSize(size int64) int64 {
	const attributes = 12 << 10
	return size/3*4 + attributes
}
