package expect

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// Observed is what a run did.
type Observed struct {
	Emitted []cloudevent.Event
	// Settled are the records of the deliveries that ended, at Functions and other sinks.
	Settled []journal.Record
}

// observation is one thing that happened, as an entry of a file would describe it.
type observation map[string]any

// emitted describes events. Their data are JSON values, texts, or base64 where they are neither.
func emitted(events []cloudevent.Event) []observation {
	found := make([]observation, 0, len(events))
	for i := range events {
		ev := &events[i]
		seen := observation{memberType: ev.Type, memberSource: ev.Source, memberID: ev.ID}
		for name, value := range map[string]string{
			"subject": ev.Subject, "time": ev.Time, "datacontenttype": ev.DataContentType, "dataschema": ev.DataSchema,
		} {
			if value != "" {
				seen[name] = value
			}
		}
		for _, extension := range ev.Extensions {
			seen[extension.Name] = extension.Value
		}
		if len(ev.Data) > 0 {
			seen["data"] = dataOf(ev.Data)
		}
		found = append(found, seen)
	}
	return found
}

func dataOf(data []byte) any {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	switch {
	case json.Valid(data) && decoder.Decode(&value) == nil:
		return value
	case utf8.Valid(data):
		return string(data)
	default:
		return base64.StdEncoding.EncodeToString(data)
	}
}

// replies describes the last answer of each delivery.
func replies(settled []journal.Record) []observation {
	var found []observation
	for i := range settled {
		if record := &settled[i]; record.Status > 0 {
			found = append(found, delivery(record))
		}
	}
	return found
}

// deadLetters describes the deliveries that ended as dead letters.
func deadLetters(settled []journal.Record) []observation {
	var found []observation
	for i := range settled {
		if record := &settled[i]; record.Kind == journal.DeadLettered {
			seen := delivery(record)
			seen["reason"], seen[memberSubscription] = record.Reason, record.Namespace+"/"+record.Subscription
			found = append(found, seen)
		}
	}
	return found
}

func delivery(record *journal.Record) observation {
	seen := observation{memberType: record.Type, memberSource: record.Source, memberID: record.ID, memberFunction: record.Sink}
	seen["attempts"] = json.Number(strconv.Itoa(record.Attempt))
	if record.Status > 0 {
		seen["status"] = json.Number(strconv.Itoa(record.Status))
	}
	return seen
}
