package schedule

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// Extensions of the events of Schedules.
const (
	// ExtensionSchedule is the name of the Schedule.
	ExtensionSchedule = "rouseschedule"
	// ExtensionMissed is the number of due times before this one that were left out.
	ExtensionMissed = "rousemissed"
)

const (
	jsonType      = "application/json"
	maxData       = 64 << 10
	maxExtension  = 1 << 10
	maxNameLength = 20
)

// Event returns the event of a tick. Two Events of the same tick have the same id.
func Event(s *v1alpha1.Schedule, tick Tick) *cloudevent.Event {
	e := eventOf(s, tick.Due, string(s.UID)+"/"+tick.Due.UTC().Format(time.RFC3339Nano))
	if tick.Missed > 0 {
		e.SetExtension(ExtensionMissed, strconv.Itoa(tick.Missed))
	}
	return e
}

// ManualEvent returns the event of a run that a user asks for, which has an id of its own.
func ManualEvent(s *v1alpha1.Schedule, now time.Time) *cloudevent.Event {
	return eventOf(s, now.Truncate(time.Second), string(s.UID)+"/manual/"+now.UTC().Format(time.RFC3339Nano))
}

func eventOf(s *v1alpha1.Schedule, due time.Time, id string) *cloudevent.Event {
	from := &s.Spec.Event
	at := due.UTC().Format(time.RFC3339Nano)
	// None of the values needs escaping in JSON.
	fill := strings.NewReplacer("{{name}}", s.Name, "{{namespace}}", s.Namespace, "{{due}}", at)
	e := &cloudevent.Event{
		ID: id, Source: cmp.Or(from.Source, s.Namespace), Type: from.Type, Subject: fill.Replace(from.Subject), Time: at,
		DataContentType: from.DataContentType,
	}
	for _, name := range slices.Sorted(maps.Keys(from.Extensions)) {
		e.SetExtension(name, fill.Replace(from.Extensions[name]))
	}
	e.SetExtension(ExtensionSchedule, s.Name)
	switch {
	case from.DataBase64 != "":
		e.Data, _ = base64.StdEncoding.DecodeString(from.DataBase64) // CheckEvent has tried
		e.Base64 = true
	case from.Data != nil:
		e.Data = []byte(fill.Replace(string(textOf(from))))
		e.DataContentType = cmp.Or(e.DataContentType, jsonType)
	}
	return e
}

// textOf returns the data as they are published: a string is unquoted where they are no JSON.
func textOf(from *v1alpha1.ScheduledEvent) []byte {
	var text string
	if !isJSON(from.DataContentType) && json.Unmarshal(from.Data.Raw, &text) == nil {
		return []byte(text)
	}
	var compact bytes.Buffer
	if json.Compact(&compact, from.Data.Raw) != nil {
		return from.Data.Raw
	}
	return compact.Bytes()
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(cmp.Or(contentType, jsonType))
	return err == nil && (media == jsonType || strings.HasSuffix(media, "+json"))
}

// CheckEvent returns an error that names the field if a Schedule's event could not be published.
func CheckEvent(s *v1alpha1.Schedule) error {
	from := &s.Spec.Event
	if from.DataBase64 != "" && from.Data != nil {
		return errors.New("spec.event has data and dataBase64: keep one")
	}
	if data, err := base64.StdEncoding.DecodeString(from.DataBase64); err != nil || len(data) > maxData {
		return fmt.Errorf("spec.event.dataBase64 must be the base64 of at most %d bytes", maxData)
	}
	if from.Data != nil && len(from.Data.Raw) > maxData {
		return fmt.Errorf("spec.event.data has %d bytes, at most %d fit", len(from.Data.Raw), maxData)
	}
	for name, value := range from.Extensions {
		if problem := checkExtension(name, value); problem != "" {
			return fmt.Errorf("spec.event.extensions: %q %s", name, problem)
		}
	}
	e := Event(s, Tick{Due: time.Unix(0, 0)})
	if err := errors.Join(e.Validate(), e.CheckText()); err != nil {
		return fmt.Errorf("spec.event: %w", err)
	}
	return nil
}

func checkExtension(name, value string) string {
	lower := func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' }
	switch {
	case name == "" || len(name) > maxNameLength || strings.ContainsFunc(name, func(r rune) bool { return !lower(r) }):
		return fmt.Sprintf("must have 1 to %d lower-case letters and digits", maxNameLength)
	case name == ExtensionSchedule || name == ExtensionMissed:
		return "is set by Rouse"
	case slices.Contains([]string{"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema", "data"}, name):
		return "is an attribute, not an extension"
	case len(value) > maxExtension:
		return fmt.Sprintf("has %d bytes, at most %d fit", len(value), maxExtension)
	default:
		return ""
	}
}
