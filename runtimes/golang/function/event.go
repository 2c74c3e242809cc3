package function

import (
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"strings"
	"time"
)

// Event is a CloudEvent. A request that carries none reaches an event handler as one without ID, Source and Type.
type Event struct {
	ID, Source, Type, SpecVersion string
	// Subject, DataSchema and DataContentType may be empty.
	Subject, DataSchema, DataContentType string
	Time                                 time.Time
	// Extensions are all other attributes, in their text form.
	Extensions map[string]string
	// Data is the payload as it came: the text of a JSON value, or bytes.
	Data []byte
}

// DataAs reads the data into what v points to: JSON as encoding/json does, and everything else into a *string, a *[]byte or
// an *any. Without data it changes nothing. Its error is the sender's fault: a handler that returns it answers 400.
func (e Event) DataAs(v any) error {
	if len(e.Data) == 0 {
		return nil
	}
	if !isText(e.DataContentType) {
		err := json.Unmarshal(e.Data, v)
		if err == nil {
			return nil
		}
		if isJSON(e.DataContentType) || !e.assign(v) {
			return Errorf(400, "malformed JSON: %v", err)
		}
		return nil
	}
	if !e.assign(v) {
		return Errorf(400, "the data is no JSON, but %s", e.DataContentType)
	}
	return nil
}

func (e Event) assign(v any) bool {
	switch v := v.(type) {
	case *string:
		*v = string(e.Data)
	case *[]byte:
		*v = e.Data
	case *any:
		*v = string(e.Data)
		if !isText(e.DataContentType) {
			*v = e.Data
		}
	default:
		return false
	}
	return true
}

// mediaType is a Content-Type without parameters, in lower case.
func mediaType(contentType string) string {
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		kind, _, _ = strings.Cut(contentType, ";")
		kind = strings.ToLower(strings.TrimSpace(kind))
	}
	return kind
}

func isJSON(contentType string) bool {
	kind := mediaType(contentType)
	return kind == "application/json" || strings.HasSuffix(kind, "+json")
}

func isText(contentType string) bool { return strings.HasPrefix(mediaType(contentType), "text/") }

// set gives an attribute its value.
func (e *Event) set(name, value string) error {
	switch name {
	case "id":
		e.ID = value
	case "source":
		e.Source = value
	case "type":
		e.Type = value
	case "specversion":
		e.SpecVersion = value
	case "subject":
		e.Subject = value
	case "dataschema":
		e.DataSchema = value
	case "datacontenttype":
		e.DataContentType = value
	case "time":
		at, err := time.Parse(time.RFC3339Nano, value)
		if err != nil {
			return Errorf(400, "malformed CloudEvent: attribute \"time\" is no time of RFC 3339")
		}
		e.Time = at
	default:
		if e.Extensions == nil {
			e.Extensions = map[string]string{}
		}
		e.Extensions[name] = value
	}
	return nil
}

// complete checks what an event must have, and adds what it may leave out.
func (e *Event) complete() error {
	for _, required := range []struct{ name, value string }{{"id", e.ID}, {"source", e.Source}, {"type", e.Type}} {
		if required.value == "" {
			return Errorf(400, "malformed CloudEvent: attribute %q is missing", required.name)
		}
	}
	switch e.SpecVersion {
	case "":
		e.SpecVersion = "1.0"
	case "1.0", "0.3":
	default:
		return Errorf(400, "malformed CloudEvent: specversion %.20q is unknown; it has to be 1.0", e.SpecVersion)
	}
	if e.Time.IsZero() {
		e.Time = time.Now().UTC()
	}
	return nil
}

// attributes are all that the event has but its data.
func (e *Event) attributes() map[string]string {
	found := map[string]string{
		"id": e.ID, "source": e.Source, "type": e.Type, "specversion": e.SpecVersion,
		"subject": e.Subject, "dataschema": e.DataSchema, "datacontenttype": e.DataContentType,
	}
	if !e.Time.IsZero() {
		found["time"] = e.Time.UTC().Format(time.RFC3339Nano)
	}
	maps.Copy(found, e.Extensions)
	for name, value := range found {
		if value == "" {
			delete(found, name)
		}
	}
	return found
}

// validName reports whether an attribute may be called so.
func validName(name string) error {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		return fmt.Errorf("cannot emit a CloudEvent: attribute %q may have lower-case letters and digits only", name)
	}
	return nil
}
