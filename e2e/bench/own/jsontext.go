package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

// decoder reads a text where it lies, and is used again.
type decoder struct {
	jsontext.Decoder

	text bytes.Buffer
}

var decoders = sync.Pool{New: func() any { return &decoder{} }}

// fromStructured is cloudevent.FromStructured with jsontext in the place of its scanner: for JSON data and extensions that
// are strings, as those of the benchmark are.
func fromStructured(text []byte) (ev cloudevent.Event, err error) {
	d := decoders.Get().(*decoder)
	defer decoders.Put(d)
	d.text = *bytes.NewBuffer(text)
	// What is stored already may have what encoding/json lets pass.
	d.Reset(&d.text, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != jsontext.KindBeginObject {
		return cloudevent.Event{}, cloudevent.ErrNotStructured
	}
	if _, err := d.ReadToken(); err != nil {
		return cloudevent.Event{}, err
	}
	for d.PeekKind() != jsontext.KindEndObject {
		if err := d.member(&ev); err != nil {
			return cloudevent.Event{}, err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return cloudevent.Event{}, err
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return cloudevent.Event{}, cloudevent.ErrNotStructured
	}
	return ev, nil
}

func (d *decoder) member(ev *cloudevent.Event) error {
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	name := raw[1 : len(raw)-1] // which a copy would be needed for if it had an escape
	if string(name) == "data" {
		ev.Data, err = d.ReadValue()
		return err
	}
	place := placeOf(ev, name)
	var extension string
	if place == nil && string(name) != "specversion" {
		extension = string(name)
	}
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	if value.Kind() != jsontext.KindString {
		return fmt.Errorf("%s is no string", name)
	}
	inner := []byte(value[1 : len(value)-1])
	if bytes.IndexByte(inner, '\\') >= 0 {
		if inner, err = jsontext.AppendUnquote(nil, value); err != nil {
			return err
		}
	}
	switch {
	case place != nil:
		*place = string(inner)
	case extension != "":
		ev.SetExtension(extension, string(inner))
	case string(inner) != "1.0":
		return fmt.Errorf("unknown specversion %.20s", inner)
	}
	return nil
}

func placeOf(ev *cloudevent.Event, name []byte) *string {
	switch string(name) {
	case "id":
		return &ev.ID
	case "source":
		return &ev.Source
	case "type":
		return &ev.Type
	case "subject":
		return &ev.Subject
	case "time":
		return &ev.Time
	case "datacontenttype":
		return &ev.DataContentType
	case "dataschema":
		return &ev.DataSchema
	default:
		return nil
	}
}

// appendStructured is Event.AppendStructured with jsontext, for JSON data.
func appendStructured(dst []byte, ev *cloudevent.Event) (_ []byte, err error) {
	dst = append(dst, `{"specversion":"1.0"`...)
	for _, a := range [...]struct{ name, value string }{
		{"id", ev.ID}, {"source", ev.Source}, {"type", ev.Type}, {"subject", ev.Subject}, {"time", ev.Time},
		{"datacontenttype", ev.DataContentType}, {"dataschema", ev.DataSchema},
	} {
		if a.value == "" {
			continue
		}
		if dst, err = appendText(dst, a.name, a.value); err != nil {
			return nil, err
		}
	}
	for i := range ev.Extensions {
		if dst, err = appendText(dst, ev.Extensions[i].Name, ev.Extensions[i].Value); err != nil {
			return nil, err
		}
	}
	if !jsontext.Value(ev.Data).IsValid(jsontext.AllowDuplicateNames(true)) {
		return nil, errors.New("the data are no JSON")
	}
	dst = append(dst, `,"data":`...)
	dst = append(dst, ev.Data...)
	return append(dst, '}'), nil
}

func appendText(dst []byte, name, value string) ([]byte, error) {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return jsontext.AppendQuote(dst, value)
}
