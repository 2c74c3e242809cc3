package ingress

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/routing"
)

// legacyPath is the publish path of applications that do not use CloudEvents.
const legacyPath = "/{application}/v1/events"

func (h *handler) publishLegacy(w http.ResponseWriter, r *http.Request) {
	id, problem := h.publishOneLegacy(w, r)
	if problem != nil {
		respondLegacy(w, *problem)
		return
	}
	respondJSON(w, http.StatusOK, 0, legacySuccess{ID: id})
}

// publishOneLegacy releases the memory of the event before the response.
func (h *handler) publishOneLegacy(w http.ResponseWriter, r *http.Request) (id string, problem *legacyProblem) {
	may, err := h.permission(r)
	if err != nil {
		return "", new(legacyRefusal(err))
	}
	body, held, err := h.memory.read(w, r, h.options.MaxRequestSize)
	defer h.memory.release(held)
	var event legacyEvent
	if err == nil {
		event, err = decodeLegacy(r.PathValue("application"), body)
	}
	if err == nil {
		err = bounds.Check(&event.Event)
	}
	if err == nil {
		err = complete(&event.Event, r.Header, time.Now())
	}
	if err == nil {
		err = may(&event.Event, event.oldType)
	}
	pass := h.chains.Shown(r.Header)
	if err == nil {
		err = h.chains.Admit(pass, &event.Event)
	}
	if err != nil {
		return "", new(legacyRefusal(err))
	}
	started := time.Now()
	places := 1
	if event.oldType != "" {
		places = 2 // its copy under that type
	}
	var failed error
	busy := h.inPlaces(r, event.Publisher, places, func(ctx context.Context) {
		failed = h.publisher.PublishLegacy(ctx, &event.Event, event.oldType)
	})
	err = cmp.Or(busy, failed)
	resp := h.settle(pass, &event.Event, err, time.Since(started))
	if err != nil {
		return "", new(legacyFailure(err, resp))
	}
	return event.ID, nil
}

// legacyRequest is the request body. Its data stay as sent.
type legacyRequest struct {
	Type    string          `json:"event-type"`
	Version string          `json:"event-type-version"`
	Time    string          `json:"event-time"`
	ID      string          `json:"event-id"`
	Data    json.RawMessage `json:"data"`
}

// legacyEvent is the CloudEvent of a legacyRequest.
type legacyEvent struct {
	cloudevent.Event

	oldType string // in Kyma's first format, "" if it has none
}

// legacyVersion is the extension that holds the version.
const legacyVersion = "eventtypeversion"

var errNoBody = errors.New("the body is empty")

// fieldError is a missing or invalid member of a legacyRequest.
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

// decodeLegacy decodes the event of an application. It ignores what follows the JSON object.
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

// check returns an error for the first invalid member, in the order of Kyma's publisher proxy.
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

// isUUID reports whether text has the form 8-4-4-4-12 of hexadecimal digits.
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

// legacySuccess has the id of the stored event. The other members are always empty; clients expect them.
type legacySuccess struct {
	ID     string `json:"event-id"`
	Status string `json:"status"`
	Reason string `json:"reason"`
}

// legacyProblem is the response for an event that was not stored.
type legacyProblem struct {
	Status   int            `json:"status,omitempty"`
	Type     string         `json:"type,omitempty"`
	Message  string         `json:"message,omitempty"`
	MoreInfo string         `json:"moreInfo,omitempty"`
	Details  []legacyDetail `json:"details,omitempty"`

	retryAfter int // seconds, 0 for none
}

type legacyDetail struct {
	Field    string `json:"field,omitempty"`
	Type     string `json:"type,omitempty"`
	Message  string `json:"message,omitempty"`
	MoreInfo string `json:"moreInfo,omitempty"`
}

// legacyRefusal returns the response to a request without a valid event.
func legacyRefusal(err error) legacyProblem {
	if errors.Is(err, errTooLarge) {
		return tooLarge(err.Error())
	}
	if resp := refusal(err); resp.status != http.StatusBadRequest {
		return fromResponse(resp)
	}
	field, ok := errors.AsType[fieldError](err)
	if !ok {
		return badSyntax(err.Error())
	}
	detail := legacyDetail{Field: field.field, Type: "invalid_field", Message: "Invalid field"}
	if field.missing {
		detail.Type, detail.Message = "missing_field", "Missing field"
	}
	return legacyProblem{
		Status: http.StatusBadRequest, Type: "validation_violation", Message: detail.Message, Details: []legacyDetail{detail},
	}
}

// legacyFailure returns the response for an event that was not stored.
func legacyFailure(err error, resp response) legacyProblem {
	if invalid, ok := errors.AsType[*failure.InvalidEventError](err); ok {
		return badSyntax(invalid.Reason)
	}
	if errors.Is(err, failure.ErrTooLarge) {
		return tooLarge(resp.reason)
	}
	return fromResponse(resp)
}

func badSyntax(reason string) legacyProblem {
	return legacyProblem{Status: http.StatusBadRequest, Type: "bad_payload_syntax", Message: "Bad payload syntax", MoreInfo: brief(reason)}
}

func tooLarge(reason string) legacyProblem {
	return legacyProblem{
		Status: http.StatusRequestEntityTooLarge, Type: "request_body_too_large", Message: "Request body too large", MoreInfo: reason,
	}
}

func fromResponse(resp response) legacyProblem {
	return legacyProblem{Status: resp.status, Message: resp.reason, retryAfter: resp.retryAfter}
}

func respondLegacy(w http.ResponseWriter, problem legacyProblem) {
	respondJSON(w, problem.Status, problem.retryAfter, problem)
}
