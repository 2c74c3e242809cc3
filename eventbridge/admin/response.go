package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/rouse-run/rouse/eventbridge/identity"
)

// httpError is an answer that is known where the problem is found.
type httpError struct {
	status int
	text   string
}

// Error is what the client reads.
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
	status, text := h.judge(err)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="rouse"`)
	}
	answer(w, status, errorBody{text})
}

// judge maps an error to an answer, and logs one that the answer does not explain.
func (h *Handler) judge(err error) (status int, text string) {
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
	case is(ErrNotFound):
		return http.StatusNotFound, ErrNotFound.Error()
	case is(ErrNoConsumer):
		return http.StatusConflict, "the Subscription has no consumer that takes events back: " +
			"create the Subscription or wait until it is active; its dead letters are kept"
	case is(ErrStorageFull):
		return http.StatusServiceUnavailable, "the stream is full, try again when events are delivered; dead letters are kept"
	case is(ErrUnavailable):
		return http.StatusServiceUnavailable, "NATS does not answer, try again"
	case is(context.Canceled, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, "it was stopped before its end, try again"
	default:
		h.log.Error(err, "a request of the admin API failed")
		return http.StatusInternalServerError, "it failed in a way that was not foreseen; the log of the eventbridge says more"
	}
}

// refusalOf is the status for who may not do what is asked, or cannot be known; 0 for other errors.
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
	if err := encoder.Encode(content); err != nil { // an event that NATS gave back damaged
		status = http.StatusInternalServerError
		body.Reset()
		body.WriteString(`{"error":"the answer cannot be written as JSON"}` + "\n")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(answerTimeout)) // tests' recorders have none
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // a client that is gone does not matter
	_ = control.Flush()
	_ = control.SetWriteDeadline(time.Time{})
}
