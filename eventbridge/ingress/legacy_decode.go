package ingress

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
)

// legacyRequest is what applications send. Its data stay as they are written.
type legacyRequest struct {
	Type    string          `json:"event-type"`
	Version string          `json:"event-type-version"`
	Time    string          `json:"event-time"`
	ID      string          `json:"event-id"`
	Data    json.RawMessage `json:"data"`
}

// legacyEvent is the CloudEvent that a legacyRequest means.
type legacyEvent struct {
	cloudevent.Event

	oldType string // in Kyma's first format, "" if that has none
}

// legacyVersion is the extension that holds the version alone.
const legacyVersion = "eventtypeversion"

var errNoBody = errors.New("the body is empty")

// fieldError is a member of a legacyRequest that is not there or makes no sense.
type fieldError struct {
	field   string
	missing bool
}

// Error implements error.
func (e fieldError) Error() string {
	if e.missing {
		return e.field + " is missing"
	}
	return e.field + " is invalid"
}

// decodeLegacy reads the event of an application. What follows the JSON object is ignored.
func decodeLegacy(application string, body []byte) (legacyEvent, error) {
	var request legacyRequest
	switch err := json.NewDecoder(bytes.NewReader(body)).Decode(&request); {
	case errors.Is(err, io.EOF):
		return legacyEvent{}, errNoBody
	case err != nil:
		return legacyEvent{}, err
	}
	published, err := request.check()
	if err != nil {
		return legacyEvent{}, err
	}
	event := legacyEvent{Event: cloudevent.Event{
		ID:              request.ID,
		Source:          application,
		Type:            request.Type + "." + request.Version,
		Time:            published.UTC().Format(time.RFC3339Nano),
		DataContentType: typeJSON,
		Data:            request.Data,
	}}
	event.SetExtension(legacyVersion, request.Version)
	if event.ID == "" {
		event.ID = string(uuid.NewUUID())
	}
	if oldType, ok := routing.OldType(application, request.Type, request.Version); ok {
		event.oldType = oldType
	}
	return event, nil
}

// check finds the first member that is wrong, in the order in which publishers are used to get them.
func (r *legacyRequest) check() (published time.Time, err error) {
	published, noTime := time.Parse(time.RFC3339, r.Time)
	for _, rule := range []struct {
		field          string
		missing, wrong bool
	}{
		{field: "event-type", missing: r.Type == ""},
		{field: "event-type-version", missing: r.Version == "", wrong: !strings.ContainsFunc(r.Version, isAlphanumeric)},
		{field: "event-time", missing: r.Time == "", wrong: noTime != nil},
		{field: "event-id", wrong: r.ID != "" && !isUUID(r.ID)},
		{field: "data", missing: !r.hasData()},
	} {
		if rule.missing || rule.wrong {
			return time.Time{}, fieldError{field: rule.field, missing: rule.missing}
		}
	}
	return published, nil
}

func (r *legacyRequest) hasData() bool {
	switch string(r.Data) {
	case "", "null", `""`:
		return false
	default:
		return true
	}
}

func isAlphanumeric(r rune) bool {
	return (r >= 'a' && r <= 'z') || (r >= 'A' && r <= 'Z') || (r >= '0' && r <= '9')
}

// isUUID wants the form 8-4-4-4-12 of hexadecimal digits.
func isUUID(text string) bool {
	const form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	if len(text) != len(form) {
		return false
	}
	for i := range len(text) {
		if c := text[i]; form[i] == '-' {
			if c != '-' {
				return false
			}
		} else if !strings.ContainsRune("0123456789abcdefABCDEF", rune(c)) {
			return false
		}
	}
	return true
}
