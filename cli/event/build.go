package event

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rouse-run/rouse/cli/exit"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

const (
	specVersion = "specversion"
	typeJSON    = "application/json"
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
	Events []cloudevent.Event
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
	ev := cloudevent.Event{DataContentType: in.ContentType, Type: in.Type}
	if in.HasContent {
		ev.Data = in.Content
		if ev.DataContentType == "" {
			ev.DataContentType = contentTypeOf(in.Content)
		}
		if isJSON(ev.DataContentType) && !json.Valid(ev.Data) {
			return Batch{}, exit.Errorf(exit.Usage, "the data is no JSON: correct it, or name its type with --content-type")
		}
	}
	complete(&ev, in)
	if err := ev.Validate(); err != nil {
		return Batch{}, exit.Errorf(exit.Usage, "this makes no event: %w", err)
	}
	return Batch{Events: []cloudevent.Event{ev}, Single: true}, nil
}

// wholeEvents reads one structured event or an array of them. Flags fill in what they do not have.
func wholeEvents(in Input) (Batch, error) {
	content := bytes.TrimSpace(in.Content)
	if len(content) == 0 {
		return Batch{}, exit.Errorf(exit.Usage, "--type is missing: name the event's type, or give whole events with --data-file")
	}
	var members []json.RawMessage
	single := content[0] != '['
	if single {
		members = []json.RawMessage{content}
	} else if err := json.Unmarshal(content, &members); err != nil {
		return Batch{}, exit.Errorf(exit.Usage, "the events are no JSON array: %w", err)
	}
	switch {
	case len(members) == 0:
		return Batch{}, exit.Errorf(exit.Usage, "the array holds no events")
	case len(members) > 1 && in.ID != "":
		return Batch{}, exit.Errorf(exit.Usage, "--id names one event, and there are %d: write the ids into them", len(members))
	}
	batch := Batch{Single: single}
	for i, member := range members {
		ev, err := wholeEvent(member, in)
		if err != nil {
			return Batch{}, exit.Errorf(exit.Usage, "event %d: %w", i+1, err)
		}
		batch.Events = append(batch.Events, ev)
	}
	return batch, nil
}

// wholeEvent fills in what an event needs and people leave out, before it is judged.
func wholeEvent(member []byte, in Input) (cloudevent.Event, error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(member, &fields); err != nil {
		return cloudevent.Event{}, fmt.Errorf("it is no JSON object: %w", err)
	}
	if _, has := fields["type"]; !has {
		return cloudevent.Event{}, errors.New("it has no type; if this is data and no event, name its type with --type")
	}
	if _, has := fields["source"]; !has && in.Source == "" {
		return cloudevent.Event{}, errors.New("it has no source: add one, or --source for all that have none")
	}
	missing, err := missingMembers(fields, in)
	if err != nil {
		return cloudevent.Event{}, err
	}
	ev, err := cloudevent.FromStructured(slices.Concat([]byte("{"), missing, bytes.TrimPrefix(bytes.TrimSpace(member), []byte("{"))))
	if err != nil {
		return cloudevent.Event{}, err
	}
	for name, value := range in.Extensions {
		if ev.Extension(name) == "" {
			ev.SetExtension(name, value)
		}
	}
	return ev, ev.Validate()
}

// missingMembers are what goes before the others. What is there stays as it was written: its data above all.
func missingMembers(fields map[string]json.RawMessage, in Input) ([]byte, error) {
	var text []byte
	for name, value := range map[string]string{specVersion: "1.0", "id": firstOf(in.ID, rand.Text()), "source": in.Source} {
		if _, has := fields[name]; has {
			continue
		}
		quoted, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		text = fmt.Appendf(text, "%q:%s,", name, quoted)
	}
	return text, nil
}

func complete(ev *cloudevent.Event, in Input) {
	ev.ID, ev.Source, ev.Subject = firstOf(in.ID, rand.Text()), in.Source, in.Subject
	for name, value := range in.Extensions {
		ev.SetExtension(name, value)
	}
}

func isExtension(name string) bool {
	switch name {
	case "", specVersion, "id", "source", "type", "subject", "time", "data", "datacontenttype", "dataschema":
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') }) < 0
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
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
	return media == typeJSON || strings.HasSuffix(media, "+json")
}
