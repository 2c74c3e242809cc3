package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	sdk "github.com/cloudevents/sdk-go/v2/event"

	"github.com/rouse-run/rouse/cli/exit"
)

// Input is the part of the command line about what to publish.
type Input struct {
	Type        string
	Source      string
	ID          string
	Subject     string
	ContentType string
	Extensions  map[string]string

	HasContent bool
	Content    []byte // data, or whole events when there is no Type
}

// Batch is events that are sent together.
type Batch struct {
	Events []sdk.Event
	Single bool // one event that was not written as an array
}

// Build makes the events. What it refuses is the fault of the command line or the file.
func Build(in Input) (Batch, error) {
	for name := range in.Extensions {
		if !isExtension(name) {
			return Batch{}, exit.Errorf(exit.Usage, "--extension %s: a name has lower-case letters and digits alone, and is no attribute with a flag of its own", name)
		}
	}
	if in.Type == "" {
		return wholeEvents(in)
	}
	if in.Source == "" {
		return Batch{}, exit.Errorf(exit.Usage, "--source is missing: say where the event comes from, as the Subscriptions that want it do")
	}
	m := members{}
	m.set("type", in.Type)
	m.set("subject", in.Subject)
	m.set(contentType, in.ContentType)
	if in.HasContent {
		if in.ContentType == "" {
			in.ContentType = contentTypeOf(in.Content)
			m.set(contentType, in.ContentType)
		}
		if isJSON(in.ContentType) && !json.Valid(in.Content) {
			return Batch{}, exit.Errorf(exit.Usage, "the data is no JSON: correct it, or name its type with --content-type")
		}
	}
	ev, err := m.event(in)
	if err != nil {
		return Batch{}, exit.Errorf(exit.Usage, "this makes no event: %w", err)
	}
	if in.HasContent {
		ev.DataEncoded = in.Content
		ev.DataBase64 = !embeddable(in.Content, in.ContentType)
	}
	return Batch{Events: []sdk.Event{ev}, Single: true}, nil
}

// wholeEvents reads one structured event or an array of them. Flags fill in what they do not have.
func wholeEvents(in Input) (Batch, error) {
	content := bytes.TrimSpace(in.Content)
	if len(content) == 0 {
		return Batch{}, exit.Errorf(exit.Usage, "--type is missing: name the event's type, or give whole events with --data-file")
	}
	var each []json.RawMessage
	single := content[0] != '['
	if single {
		each = []json.RawMessage{content}
	} else if err := json.Unmarshal(content, &each); err != nil {
		return Batch{}, exit.Errorf(exit.Usage, "the events are no JSON array: %w", err)
	}
	switch {
	case len(each) == 0:
		return Batch{}, exit.Errorf(exit.Usage, "the array holds no events")
	case len(each) > 1 && in.ID != "":
		return Batch{}, exit.Errorf(exit.Usage, "--id names one event, and there are %d: write the ids into them", len(each))
	}
	batch := Batch{Single: single}
	for i, text := range each {
		ev, err := wholeEvent(text, in)
		if err != nil {
			return Batch{}, exit.Errorf(exit.Usage, "event %d: %w", i+1, err)
		}
		batch.Events = append(batch.Events, ev)
	}
	return batch, nil
}

// wholeEvent fills in what an event needs and people leave out, before it is judged.
func wholeEvent(text []byte, in Input) (sdk.Event, error) {
	var m members
	if err := json.Unmarshal(text, &m); err != nil {
		return sdk.Event{}, fmt.Errorf("it is no JSON object: %w", err)
	}
	m.dropEmpty()
	if _, has := m["type"]; !has {
		return sdk.Event{}, errors.New("it has no type; if this is data and no event, name its type with --type")
	}
	if _, has := m["source"]; !has && in.Source == "" {
		return sdk.Event{}, errors.New("it has no source: add one, or --source for all that have none")
	}
	// Without a type data are JSON, which headers have to say.
	if _, has := m["data"]; has && m[contentEncoding] == nil && m[dataBase64] == nil {
		m.setMissing(contentType, typeJSON)
	}
	return m.event(in)
}

// embeddable reports whether data come back byte for byte when they stand in a JSON event. White space around a value
// would be lost.
func embeddable(data []byte, contentType string) bool {
	if !utf8.Valid(data) {
		return false
	}
	return !isJSON(contentType) || json.Valid(data) && len(bytes.TrimSpace(data)) == len(data)
}

func contentTypeOf(data []byte) string {
	switch {
	case json.Valid(data):
		return typeJSON
	case utf8.Valid(data):
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == typeJSON || media == sdk.TextJSON || strings.HasSuffix(media, "+json")
}
