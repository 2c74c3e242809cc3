package cloudevent

import (
	"errors"
	"mime"
	"net/url"
	"strings"
	"time"
)

// Validate says everything that is wrong with the attributes, a line for each.
func (e *Event) Validate() error {
	if e.sound() {
		return nil
	}
	var lines []string
	report := func(ok bool, line string) {
		if !ok {
			lines = append(lines, line)
		}
	}
	report(e.DataContentType == "" || isMediaType(e.DataContentType), "datacontenttype: MUST be a media type")
	report(e.DataSchema == "" || isURI(e.DataSchema), "dataschema: MUST be a URI")
	report(strings.TrimSpace(e.ID) != "", "id: MUST be a non-empty string")
	report(strings.TrimSpace(e.Source) != "" && isURIReference(e.Source), "source: MUST be a URI-reference")
	report(e.Subject == "" || strings.TrimSpace(e.Subject) != "", "subject: MUST be a non-empty string")
	report(e.Time == "" || isTime(e.Time), "time: MUST be a RFC 3339 timestamp")
	report(strings.TrimSpace(e.Type) != "", "type: MUST be a non-empty string")
	if len(lines) == 0 {
		return nil
	}
	return errors.New(strings.Join(lines, "\n"))
}

// sound knows most of the events that nothing is wrong with at a glance.
func (e *Event) sound() bool {
	return isPlain(e.ID) && isPlain(e.Source) && isPlain(e.Type) && e.Subject == "" && e.DataSchema == "" &&
		(e.DataContentType == "" || e.DataContentType == "application/json") && (e.Time == "" || isTime(e.Time))
}

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
	_, err := url.Parse(text)
	return err == nil
}

func isURI(text string) bool {
	parsed, err := url.Parse(text)
	return err == nil && parsed.IsAbs()
}

func isMediaType(text string) bool {
	_, _, err := mime.ParseMediaType(text)
	return err == nil
}

func isTime(text string) bool {
	_, err := time.Parse(time.RFC3339Nano, text)
	return err == nil
}
