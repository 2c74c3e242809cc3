package broker

import (
	"encoding/base64"
	"fmt"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
)

// maxYear is the last year that RFC 3339 can write.
const maxYear = 9999

// normalise returns the event's attributes in a form that survives JSON, and its
// data. The event itself stays as it is.
func normalise(e event.Event) (*event.EventContextV1, payload, error) {
	if err := e.Validate(); err != nil {
		return nil, payload{}, &InvalidEventError{Reason: err.Error()}
	}
	e, err := modern(e)
	if err != nil {
		return nil, payload{}, &InvalidEventError{Reason: err.Error()}
	}
	attributes := e.Context.AsV1() // a copy, except for its map
	if err := checkAttributes(attributes); err != nil {
		return nil, payload{}, err
	}
	extensions, err := plainExtensions(attributes.Extensions)
	if err != nil {
		return nil, payload{}, err
	}
	attributes.Extensions = extensions
	return attributes, payloadOf(attributes, e), nil
}

// modern lifts an event to version 1.0 of the specification.
func modern(e event.Event) (event.Event, error) {
	if _, ok := e.Context.(*event.EventContextV1); ok {
		return e, nil
	}
	attributes := e.Context.AsV1()
	encoding, encoded := attributes.Extensions[event.DataContentEncodingKey]
	delete(attributes.Extensions, event.DataContentEncodingKey)
	e.Context = attributes
	if !encoded || encoding != event.Base64 || e.DataBase64 {
		return e, nil
	}
	data, err := base64.StdEncoding.DecodeString(string(e.DataEncoded))
	if err != nil {
		return event.Event{}, fmt.Errorf("data: %w", err)
	}
	e.DataEncoded, e.DataBase64 = data, true
	return e, nil
}

func checkAttributes(attributes *event.EventContextV1) error {
	texts := map[string]string{
		"id":     attributes.ID,
		"source": attributes.Source.String(),
		"type":   attributes.Type,
	}
	if attributes.Subject != nil {
		texts["subject"] = *attributes.Subject
	}
	if attributes.DataContentType != nil {
		texts["datacontenttype"] = *attributes.DataContentType
	}
	if attributes.DataSchema != nil {
		texts["dataschema"] = attributes.DataSchema.String()
	}
	for name, text := range texts {
		if !utf8.ValidString(text) {
			return &InvalidEventError{Reason: name + ": MUST be valid UTF-8"}
		}
	}
	if types.ParseURIRef(texts["source"]) == nil {
		return &InvalidEventError{Reason: "source: MUST be a URI-reference"}
	}
	if attributes.DataSchema != nil && types.ParseURI(texts["dataschema"]) == nil {
		return &InvalidEventError{Reason: "dataschema: MUST be a URI"}
	}
	if attributes.Time != nil && (attributes.Time.UTC().Year() > maxYear || attributes.Time.UTC().Year() < 0) {
		return &InvalidEventError{Reason: "time: MUST be a RFC 3339 timestamp"}
	}
	return nil
}

// plainExtensions copies extensions as what JSON can carry back and forth: truth
// values, integers and text.
func plainExtensions(extensions map[string]any) (map[string]any, error) {
	plain := event.EventContextV1{Extensions: make(map[string]any, len(extensions)+1)}
	for name, value := range extensions {
		if name == "data" {
			return nil, &InvalidEventError{Reason: "data: is not a name for an extension"}
		}
		switch value.(type) {
		case bool, int32:
		default:
			text, err := types.Format(value)
			if err != nil {
				return nil, &InvalidEventError{Reason: name + ": " + err.Error()}
			}
			if !utf8.ValidString(text) {
				return nil, &InvalidEventError{Reason: name + ": MUST be valid UTF-8"}
			}
			value = text
		}
		if err := plain.SetExtension(name, value); err != nil {
			return nil, &InvalidEventError{Reason: name + ": " + err.Error()}
		}
	}
	return plain.Extensions, nil
}
