package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/rouse-run/rouse/internal/broker"
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

type redriven struct {
	Error     string   `json:"error,omitempty"`
	Redriven  *uint64  `json:"redriven"`
	Failed    *uint64  `json:"failed"`
	Remaining *uint64  `json:"remaining"`
	Problems  []string `json:"problems,omitempty"`
}

type purged struct {
	Error  string `json:"error,omitempty"`
	Purged uint64 `json:"purged"`
}

// deadLetter is a dead letter in a list.
type deadLetter struct {
	Sequence     uint64     `json:"sequence"`
	Namespace    string     `json:"namespace"`
	Subscription string     `json:"subscription"`
	Reason       string     `json:"reason"`  // a code
	Message      string     `json:"message"` // the same as a sentence
	Attempts     int        `json:"attempts"`
	Status       int        `json:"status,omitempty"`
	Excerpt      string     `json:"excerpt,omitempty"`
	Time         time.Time  `json:"time"`
	Published    *time.Time `json:"published,omitempty"`
	Subject      string     `json:"subject,omitempty"`
	ID           string     `json:"id,omitempty"`
	Source       string     `json:"source,omitempty"`
	Type         string     `json:"type,omitempty"`
}

// deadLetterDetail has its event too, or bytes that are none.
type deadLetterDetail struct {
	deadLetter

	Event json.RawMessage `json:"event,omitempty"`
	Body  []byte          `json:"body,omitempty"`
}

func deadLetterOf(l broker.StoredDeadLetter) deadLetter {
	shown := deadLetter{
		Sequence: l.Sequence, Namespace: l.Subscription.Namespace, Subscription: l.Subscription.Name,
		Reason: string(l.Reason), Message: l.Message, Attempts: l.Attempts, Status: l.Status, Excerpt: l.Excerpt, Time: l.Time.UTC(),
		Subject: l.Subject, ID: l.ID, Source: l.Source, Type: l.Type,
	}
	if !l.Stored.IsZero() {
		published := l.Stored.UTC()
		shown.Published = &published
	}
	return shown
}

func deadLetterDetailOf(l broker.StoredDeadLetter) deadLetterDetail {
	whole := deadLetterDetail{deadLetter: deadLetterOf(l)}
	if l.Structured {
		whole.Event = l.Body
	} else {
		whole.Body = l.Body
	}
	return whole
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
	case is(errUnauthorized):
		return http.StatusUnauthorized, err.Error()
	case is(errNoToken):
		return http.StatusServiceUnavailable, err.Error()
	case is(broker.ErrDeadLetterNotFound):
		return http.StatusNotFound, broker.ErrDeadLetterNotFound.Error()
	case is(broker.ErrConsumerNotFound):
		return http.StatusConflict, "the Subscription has no consumer that takes events back: " +
			"create the Subscription or wait until it is active; its dead letters are kept"
	case is(broker.ErrStorageFull):
		return http.StatusServiceUnavailable, "the stream is full, try again when events are delivered; dead letters are kept"
	case is(broker.ErrNotConnected, broker.ErrNoStream, broker.ErrTimeout, broker.ErrBusy):
		return http.StatusServiceUnavailable, "NATS does not answer, try again"
	case is(context.Canceled, context.DeadlineExceeded):
		return http.StatusServiceUnavailable, "it was stopped before its end, try again"
	default:
		h.log.Error(err, "a request of the admin API failed")
		return http.StatusInternalServerError, "it failed in a way that was not foreseen; the log of the eventbridge says more"
	}
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
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // a client that is gone does not matter
}
