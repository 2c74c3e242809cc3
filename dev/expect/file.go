package expect

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

const (
	// MaxSize bounds a file in bytes, maxEntries the events and expectations in it.
	MaxSize    = 4 << 20
	maxEntries = 1000
)

// The parts of a file.
const (
	partPublish     = "publish"
	partEmitted     = "emitted"
	partReplies     = "replies"
	partDeadLetters = "deadLetters"
)

// Members of entries. The values of the last two may lack the namespace.
const (
	memberType         = "type"
	memberSource       = "source"
	memberID           = "id"
	memberFunction     = "function"
	memberSubscription = "subscription"
)

// members are the members that an entry of a part may have. An emitted event may have any: the attributes that it has, and extensions.
var members = map[string][]string{
	partReplies:     {memberType, memberSource, memberID, memberFunction, "status", "attempts"},
	partDeadLetters: {memberType, memberSource, memberID, memberFunction, memberSubscription, "status", "reason", "attempts"},
}

// File is a file of expectations.
type File struct {
	Name        string
	Publish     []cloudevent.Event
	Emitted     Part
	Replies     Part
	DeadLetters Part
}

// Part holds the expectations of one kind.
type Part struct {
	// Checked is false when the file does not have the part. A part without entries expects that nothing of its kind is there.
	Checked bool
	Entries []Entry
}

// Entry is one expectation: members that have to be there, with these values.
type Entry struct {
	Line   int
	Wanted map[string]any
}

// Read reads the content of a file.
func Read(name string, content []byte) (File, error) {
	f, err := read(content)
	if err != nil {
		return File{}, fmt.Errorf("read the expectations in %s: %w", name, err)
	}
	f.Name = name
	return f, nil
}

func read(content []byte) (File, error) {
	if len(content) > MaxSize {
		return File{}, fmt.Errorf("it has %d bytes, and %d are allowed", len(content), MaxSize)
	}
	found, err := linesOf(content)
	if err != nil {
		return File{}, err
	}
	var raw map[string][]json.RawMessage
	if err := kyaml.UnmarshalStrict(content, &raw); err != nil {
		return File{}, fmt.Errorf("it is not YAML of lists named %s, %s, %s and %s: %w",
			partPublish, partEmitted, partReplies, partDeadLetters, err)
	}
	var f File
	for _, part := range slices.Sorted(maps.Keys(raw)) {
		if err := f.add(part, raw[part], found[part]); err != nil {
			return File{}, err
		}
	}
	if len(f.Publish) == 0 && !f.Emitted.Checked && !f.Replies.Checked && !f.DeadLetters.Checked {
		return File{}, errors.New("it is empty: list events below publish, and what they cause below emitted, replies or deadLetters")
	}
	return f, nil
}

// linesOf returns the lines on which the entries of each part begin.
func linesOf(content []byte) (map[string][]int, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return nil, fmt.Errorf("it is not YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	found := map[string][]int{}
	if len(document.Content) == 0 || document.Content[0].Kind != yaml.MappingNode {
		return found, nil
	}
	pairs := document.Content[0].Content
	for i := 0; i+1 < len(pairs); i += 2 {
		for _, entry := range pairs[i+1].Content {
			found[pairs[i].Value] = append(found[pairs[i].Value], entry.Line)
		}
	}
	return found, nil
}

func (f *File) add(part string, entries []json.RawMessage, found []int) error {
	if len(entries) > maxEntries {
		return fmt.Errorf("%s has %d entries, and %d are allowed", part, len(entries), maxEntries)
	}
	into := map[string]*Part{partEmitted: &f.Emitted, partReplies: &f.Replies, partDeadLetters: &f.DeadLetters}[part]
	if part != partPublish && into == nil {
		return fmt.Errorf("there is no part %q: use %s, %s, %s or %s", part, partPublish, partEmitted, partReplies, partDeadLetters)
	}
	if into != nil {
		into.Checked = true
	}
	for i, entry := range entries {
		line := 0
		if i < len(found) {
			line = found[i]
		}
		var err error
		if into == nil {
			err = f.publish(i, entry)
		} else {
			err = into.add(part, line, entry)
		}
		if err != nil {
			return fmt.Errorf("line %d: %s: %w", line, part, err)
		}
	}
	return nil
}

// publish adds an event. One without an id gets one that each run gives it.
func (f *File) publish(i int, text json.RawMessage) error {
	var event map[string]json.RawMessage
	if err := json.Unmarshal(text, &event); err != nil {
		return errors.New("an event is an object with type, source and data")
	}
	setMissing := func(name, value string) {
		if _, has := event[name]; !has {
			event[name], _ = json.Marshal(value) // a string can be written
		}
	}
	setMissing("specversion", "1.0")
	setMissing(memberID, fmt.Sprintf("expect-%d", i+1))
	if _, has := event["data"]; has {
		setMissing("datacontenttype", "application/json")
	}
	body, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("write the event: %w", err)
	}
	ev, err := cloudevent.FromStructured(body)
	if err == nil {
		err = ev.Validate()
	}
	if err != nil {
		return fmt.Errorf("it is not a CloudEvent: %w", err)
	}
	f.Publish = append(f.Publish, ev)
	return nil
}

func (p *Part) add(part string, line int, text json.RawMessage) error {
	wanted, err := object(text)
	if err != nil {
		return err
	}
	if len(wanted) == 0 {
		return errors.New("an entry names at least one member, such as type")
	}
	if allowed := members[part]; allowed != nil {
		for _, name := range slices.Sorted(maps.Keys(wanted)) {
			if !slices.Contains(allowed, name) {
				return fmt.Errorf("there is no member %q: use some of %s", name, strings.Join(allowed, ", "))
			}
		}
	}
	p.Entries = append(p.Entries, Entry{Line: line, Wanted: wanted})
	return nil
}

// object decodes a JSON object, with its numbers as they are written.
func object(text []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var found map[string]any
	if err := decoder.Decode(&found); err != nil {
		return nil, errors.New("an entry is an object, such as {type: order.priced}")
	}
	return found, nil
}
