package cloudevent

import (
	"errors"
	"fmt"
	"mime"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

// Validate says everything that is wrong with the attributes, a line for each.
func (e *Event) Validate() error {
	var lines []string
	report := func(ok bool, line string) {
		if !ok {
			lines = append(lines, line)
		}
	}
	report(e.DataContentType == "" || isMediaType(e.DataContentType), "datacontenttype: MUST be a media type")
	report(e.DataSchema == "" || isURI(e.DataSchema), "dataschema: MUST be a URI")
	report(isText(e.ID), "id: MUST be a non-empty string")
	report(isText(e.Source), "source: REQUIRED")
	report(!isText(e.Source) || isURIReference(e.Source), "source: MUST be a URI-reference")
	report(e.Subject == "" || isText(e.Subject), "subject: MUST be a non-empty string")
	report(e.Time == "" || isTime(e.Time), "time: MUST be a RFC 3339 timestamp")
	report(isText(e.Type), "type: MUST be a non-empty string")
	if len(lines) == 0 {
		return nil
	}
	return errors.New(strings.Join(lines, "\n"))
}

// CheckText says which attribute JSON cannot carry. Validate lets it pass, because bytes of headers may be anything, and
// what others stored is delivered as it is.
func (e *Event) CheckText() error {
	for _, a := range [...]struct{ name, value string }{
		{"id", e.ID},
		{"source", e.Source},
		{"type", e.Type},
		{"subject", e.Subject},
		{"time", e.Time},
		{"datacontenttype", e.DataContentType},
		{"dataschema", e.DataSchema},
	} {
		if !utf8.ValidString(a.value) {
			return fmt.Errorf("%s: MUST be valid UTF-8", a.name)
		}
	}
	for i := range e.Extensions {
		if !utf8.ValidString(e.Extensions[i].Value) {
			return fmt.Errorf("%s: MUST be valid UTF-8", e.Extensions[i].Name)
		}
	}
	return nil
}

func isText(text string) bool { return strings.TrimSpace(text) != "" }

// isPlain is true for a text of letters, digits, dots and the like, which is also a URI-reference.
func isPlain(text string) bool {
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-' && c != '_' && c != '/' {
			return false
		}
	}
	return text != ""
}

func isURIReference(text string) bool {
	if isPlain(text) {
		return true
	}
	parsed, err := url.Parse(text)
	return err == nil && parsed.String() != "" // as that of "#" is
}

func isURI(text string) bool {
	parsed, err := url.Parse(text)
	return err == nil && parsed.IsAbs()
}

func isMediaType(text string) bool {
	switch text {
	case "application/json", "application/json; charset=utf-8", "text/plain", "application/octet-stream":
		return true
	}
	_, _, err := mime.ParseMediaType(text)
	return err == nil
}

func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339Nano, text)
	return err == nil
}
