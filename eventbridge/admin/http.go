package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/internal/failure"
)

const (
	maxBody      = 16 << 10
	maxEdited    = 1 << 20 // of a body with the data of an event
	defaultLimit = 100
	maxLimit     = 1000
)

// selectionBody is the body of a redrive or purge.
type selectionBody struct {
	Namespace    string `json:"namespace"`
	Subscription string `json:"subscription"`
	Reason       string `json:"reason"`
	Sequence     uint64 `json:"sequence"`
	All          bool   `json:"all"`
}

// selectionOf decodes the body of a request that changes something.
func selectionOf(w http.ResponseWriter, r *http.Request) (Selection, error) {
	var s selectionBody
	if err := decodeBody(w, r, &s, maxBody, "namespace, subscription, reason, sequence and all"); err != nil {
		return Selection{}, err
	}
	return s.check()
}

// editOf decodes the sequence and the body of a request that redrives a dead letter with other data.
func editOf(w http.ResponseWriter, r *http.Request) (selected Selection, data []byte, err error) {
	if selected.Sequence, err = number("sequence", r.PathValue("sequence")); err != nil {
		return Selection{}, nil, err
	}
	var body struct {
		Namespace string          `json:"namespace"`
		Data      json.RawMessage `json:"data"`
	}
	if err := decodeBody(w, r, &body, maxEdited, "namespace and data"); err != nil {
		return Selection{}, nil, err
	}
	switch selected.Namespace = body.Namespace; {
	case selected.Sequence == 0:
		return Selection{}, nil, problem("sequence", "it must be at least 1")
	case len(body.Data) == 0:
		return Selection{}, nil, problem("data", "it is missing: redrive as it is without it")
	}
	return selected, body.Data, invalid(selected.Validate())
}

// decodeBody decodes a JSON object with some of the fields, of a bounded number of bytes.
func decodeBody(w http.ResponseWriter, r *http.Request, into any, most int64, fields string) error {
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, most))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
			return httpError{http.StatusRequestEntityTooLarge, fmt.Sprintf("body: it must not be larger than %d bytes", most)}
		}
		return httpError{http.StatusBadRequest, "body: it must be a JSON object with some of " + fields + ": " + err.Error()}
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return httpError{http.StatusBadRequest, "body: there is more than one object"}
	}
	return nil
}

func (s selectionBody) check() (Selection, error) {
	selected := Selection{
		Namespace: s.Namespace, Subscription: s.Subscription, Reason: failure.Reason(s.Reason), Sequence: s.Sequence,
	}
	switch {
	case s.Namespace == "" && s.Sequence == 0 && !s.All:
		return selected, httpError{
			http.StatusBadRequest,
			`nothing is selected: add "namespace" and "subscription", "sequence", or "all": true for every dead letter`,
		}
	case s.All && s.Sequence != 0:
		return selected, httpError{http.StatusBadRequest, `"all" and "sequence" contradict each other: leave one out`}
	}
	return selected, invalid(selected.Validate())
}

// ParseQuery parses the query of a list of dead letters. Its error names the parameter.
func ParseQuery(values url.Values) (Query, error) {
	query := Query{Limit: defaultLimit}
	for name := range values {
		value := values.Get(name)
		var err error
		switch name {
		case "namespace":
			query.Namespace = value
		case "subscription":
			query.Subscription = value
		case "reason":
			query.Reason = failure.Reason(value)
		case "after":
			query.After, err = number(name, value)
		case "limit":
			var limit uint64
			limit, err = number(name, value)
			query.Limit = int(min(limit, maxLimit))
			if limit == 0 && err == nil {
				err = httpError{http.StatusBadRequest, "limit: it must be at least 1"}
			}
		default:
			err = httpError{http.StatusBadRequest, fmt.Sprintf("there is no parameter %q: use namespace, subscription, reason, after or limit", name)}
		}
		if err != nil {
			return query, err
		}
	}
	return query, invalid(query.Validate())
}

// namespaceOf parses the only parameter that a request may have. It is empty for all namespaces.
func namespaceOf(values url.Values) (string, error) {
	for name := range values {
		if name != "namespace" {
			return "", httpError{http.StatusBadRequest, fmt.Sprintf("there is no parameter %q: use namespace", name)}
		}
	}
	selected := Selection{Namespace: values.Get("namespace")}
	return selected.Namespace, invalid(selected.Validate())
}

func number(name, text string) (uint64, error) {
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, httpError{http.StatusBadRequest, name + ": it must be a number"}
	}
	return value, nil
}

func invalid(err error) error {
	if err == nil {
		return nil
	}
	return httpError{http.StatusBadRequest, err.Error()}
}

// httpError is an error response.
type httpError struct {
	status int
	text   string
}

// Error returns the text for the client.
func (e httpError) Error() string { return e.text }

type errorBody struct {
	Error string `json:"error"`
}

type redrivenBody struct {
	Error     string   `json:"error,omitempty"`
	Redriven  *uint64  `json:"redriven"`
	Failed    *uint64  `json:"failed"`
	Remaining *uint64  `json:"remaining"`
	Problems  []string `json:"problems,omitempty"`
}

type purgedBody struct {
	Error  string `json:"error,omitempty"`
	Purged uint64 `json:"purged"`
}

func (h *Handler) fail(w http.ResponseWriter, err error) {
	status, text := h.responseFor(err)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="rouse"`)
	}
	answer(w, status, errorBody{text})
}

// responseFor maps an error to a response, and logs an error that the response does not explain.
func (h *Handler) responseFor(err error) (status int, text string) {
	known, isKnown := errors.AsType[httpError](err)
	refused := refusalOf(err)
	is := func(targets ...error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
	switch {
	case isKnown:
		return known.status, known.text
	case refused != 0:
		return refused, err.Error()
	case is(failure.ErrDataNotEditable):
		return http.StatusConflict, failure.ErrDataNotEditable.Error()
	case is(failure.ErrDeadLetterNotFound, failure.ErrNoDelayed):
		return http.StatusNotFound, notFound(err).Error()
	case is(failure.ErrConsumerNotFound):
		return http.StatusConflict, "the Subscription has no consumer that takes events back: " +
			"create the Subscription or wait until it is active; its dead letters are kept"
	case is(failure.ErrStorageFull):
		return http.StatusServiceUnavailable, "the stream is full, try again when events are delivered; dead letters are kept"
	case is(failure.ErrNotConnected, failure.ErrNoStream, failure.ErrTimeout, failure.ErrBusy):
		return http.StatusServiceUnavailable, "NATS does not answer, try again"
	case is(context.Canceled, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, "the request was stopped before it completed, try again"
	default:
		h.log.Error(err, "admin API request failed")
		return http.StatusInternalServerError, "internal error, see the log of the eventbridge"
	}
}

// notFound returns what is said of what does not exist, without what the error wraps.
func notFound(err error) error {
	if errors.Is(err, failure.ErrNoDelayed) {
		return failure.ErrNoDelayed
	}
	return failure.ErrDeadLetterNotFound
}

// refusalOf returns the status for a user who is not authorized, or whose authorization failed; 0 for other errors.
func refusalOf(err error) int {
	if _, forbidden := errors.AsType[identity.ForbiddenError](err); forbidden {
		return http.StatusForbidden
	}
	switch {
	case errors.Is(err, identity.ErrUnauthenticated):
		return http.StatusUnauthorized
	case errors.Is(err, identity.ErrBusy), errors.Is(err, identity.ErrRightUndecided):
		return http.StatusServiceUnavailable
	}
	return 0
}

func answer(w http.ResponseWriter, status int, content any) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(content); err != nil { // an event that NATS returned damaged
		status = http.StatusInternalServerError
		body.Reset()
		body.WriteString(`{"error":"the answer cannot be written as JSON"}` + "\n")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(answerTimeout)) // recorders of tests have none
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // a client that is gone does not matter
	_ = control.Flush()
	_ = control.SetWriteDeadline(time.Time{})
}
