package broker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
)

// A stored event is structured JSON. Some attributes are repeated as headers for
// readers that only look; the body is what counts.
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

	// attributesSize is room for the attributes of a usual event.
	attributesSize = 512
)

// encode turns an event into the message that is stored for it. Its errors are
// an *InvalidEventError; whatever it encodes can be decoded.
func encode(e event.Event) (*nats.Msg, error) {
	attributes, payload, err := normalise(e)
	if err != nil {
		return nil, err
	}
	address, err := addressOf(attributes.Source.String(), attributes.Type)
	if err != nil {
		return nil, err
	}
	delete(attributes.Extensions, ExtensionOriginalType)
	if address.keepOriginal {
		attributes.Extensions[ExtensionOriginalType] = attributes.Type
	}
	attributes.Type = address.wireType

	var body bytes.Buffer
	body.Grow(len(payload.bytes) + attributesSize)
	stored := event.Event{Context: attributes, DataEncoded: payload.bytes, DataBase64: payload.base64}
	if err := event.WriteJson(&stored, &body); err != nil {
		return nil, &InvalidEventError{Reason: err.Error()}
	}
	return &nats.Msg{Subject: address.subject, Header: headers(attributes), Data: body.Bytes()}, nil
}

func headers(attributes *event.EventContextV1) nats.Header {
	source := attributes.Source.String()
	header := nats.Header{
		headerSpecVersion:     {event.CloudEventsVersionV1},
		headerType:            {attributes.Type},
		headerSource:          {source},
		headerID:              {attributes.ID},
		jetstream.MsgIDHeader: {messageID(source, attributes.ID)},
	}
	if attributes.DataContentType != nil {
		header[headerContentType] = []string{*attributes.DataContentType}
	}
	return header
}

// messageID is what duplicates are recognised by. An id is unique only within
// its source, so both are part of it.
func messageID(source, id string) string {
	const size = 16
	sum := sha256.Sum256([]byte(source + "\x00" + id))
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

// restoreType gives the event the type that its publisher wrote. Where a stored event does not say it, what the
// subject has in front of it is taken off.
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
