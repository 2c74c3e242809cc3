package ingress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rouse-run/rouse/eventbridge/tracecontext"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

const (
	typeJSON       = "application/json"
	typeStructured = "application/cloudevents+json"
	typeBatch      = "application/cloudevents-batch+json"
)

var (
	errUnknown = errors.New("unknown Message encoding")
	errNotJSON = errors.New("data: MUST be JSON, because datacontenttype says so")
)

// bounds limit an event apart from its data. Sinks get all attributes as headers, of which common servers accept 16
// KiB.
var bounds = cloudevent.Bounds{Extensions: 64, Attributes: 16 << 10}

// mediaType returns the content type without parameters. It copies only unusual spellings.
func mediaType(contentType string) string {
	name, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(name))
}

// decode decodes the event of a request in binary or structured mode.
func decode(header http.Header, body []byte, now time.Time) (cloudevent.Event, error) {
	var ev cloudevent.Event
	var err error
	switch {
	case mediaType(header.Get("Content-Type")) == typeStructured:
		ev, err = bounds.FromStructured(body)
	case knownVersion(header.Get("Ce-Specversion")):
		ev, err = bounds.FromBinary(header, body)
	default:
		err = errUnknown
	}
	if err != nil {
		return cloudevent.Event{}, err
	}
	return ev, complete(&ev, header, now)
}

func knownVersion(version string) bool { return version == "1.0" || version == "0.3" }

// complete validates an event and adds the trace of the request and, unless the publisher set one, the time. The time
// is set once, so that each attempt delivers the same event.
func complete(ev *cloudevent.Event, header http.Header, now time.Time) error {
	if err := ev.Validate(); err != nil {
		return err
	}
	if len(ev.Data) > 0 && isJSON(ev.DataContentType) && !ev.CheckJSON() {
		return errNotJSON
	}
	tracecontext.Extract(header, ev)
	if ev.Time == "" {
		ev.Time = now.UTC().Format(time.RFC3339Nano)
	}
	return nil
}

// isJSON reports whether a content type is JSON.
func isJSON(contentType string) bool {
	if contentType == typeJSON {
		return true
	}
	name := mediaType(contentType)
	return name == typeJSON || name == "text/json" || strings.HasSuffix(name, "+json")
}

var errEmptyBatch = errors.New("the batch has no events")

// result is the result for one event of a batch.
type result struct {
	ID     string `json:"id,omitempty"` // if it could be read
	Source string `json:"source,omitempty"`
	Status int    `json:"status"`
	Reason string `json:"reason,omitempty"`

	Delayed *delayedEvent `json:"delayed,omitempty"`

	retryAfter int
}

// publishBatch stores the events of a batch and returns a result for each of them, in order, or a response for all.
func (h *handler) publishBatch(w http.ResponseWriter, r *http.Request, may Permission, due time.Time) ([]result, response) {
	body, held, err := h.memory.read(w, r, h.options.largestBody())
	defer h.memory.release(held)
	var members [][]byte
	if err == nil {
		members, err = cloudevent.SplitBatch(body, h.options.MaxBatchEvents)
	}
	switch {
	case errors.Is(err, cloudevent.ErrLargeBatch):
		err = fmt.Errorf("%w: at most %d", err, h.options.MaxBatchEvents)
	case err == nil && len(members) == 0:
		err = errEmptyBatch
	}
	if err != nil {
		return nil, refusal(err)
	}
	return h.storeAll(r, members, may, due), response{}
}

// storeAll stores the valid events concurrently.
func (h *handler) storeAll(r *http.Request, members [][]byte, may Permission, due time.Time) []result {
	results := make([]result, len(members))
	events := make([]*cloudevent.Event, 0, len(members))
	positions := make([]int, 0, len(members)) // of the events among the members
	now := time.Now()
	pass := h.chains.Shown(r.Header)
	for i, member := range members {
		ev, err := h.decodeMember(r.Header, member, now)
		if err == nil {
			err = may(&ev, "")
		}
		if err == nil {
			err = h.chains.Admit(pass, &ev)
		}
		if err != nil {
			results[i] = resultOf(&ev, refusal(err))
			continue
		}
		if !due.IsZero() {
			if resp, later := h.delayOne(r, pass, &ev, due); later {
				results[i] = resultOf(&ev, resp)
				continue
			}
		}
		events, positions = append(events, &ev), append(positions, i)
	}
	if len(events) == 0 {
		return results
	}
	started := time.Now()
	errs := h.publishAll(r, events)
	took := time.Since(started)
	for i, ev := range events {
		results[positions[i]] = resultOf(ev, h.settle(pass, ev, errs[i], took))
	}
	return results
}

// publishAll publishes all events, or none while there are no places for them.
func (h *handler) publishAll(r *http.Request, events []*cloudevent.Event) (errs []error) {
	err := h.inPlaces(r, events[0].Publisher, len(events), func(ctx context.Context) { errs = h.publisher.PublishAll(ctx, events) })
	if err != nil {
		return slices.Repeat([]error{err}, len(events))
	}
	return errs
}

// decodeMember decodes one event. The trace of the request applies to events without a trace.
func (h *handler) decodeMember(header http.Header, member []byte, now time.Time) (cloudevent.Event, error) {
	if int64(len(member)) > h.options.MaxRequestSize {
		return cloudevent.Event{}, fmt.Errorf("the event is larger than %d bytes", h.options.MaxRequestSize)
	}
	ev, err := bounds.FromStructured(member)
	if err != nil {
		return cloudevent.Event{}, err
	}
	if ev.Extension("traceparent") != "" || ev.Extension("b3traceid") != "" {
		header = nil
	}
	return ev, complete(&ev, header, now)
}

func resultOf(ev *cloudevent.Event, resp response) result {
	return result{
		ID: brief(ev.ID), Source: brief(ev.Source), Status: resp.status, Reason: resp.reason, Delayed: resp.delayed, retryAfter: resp.retryAfter,
	}
}

// statusOf returns the status of the whole response: 204 when all events are stored, or 202 if some are due later. Otherwise it is the status of the
// first event for which a retry helps, so that a publisher that reads nothing else sends the batch again, or of the
// first failed one.
func statusOf(results []result) (status, retryAfter int) {
	status = http.StatusNoContent
	for _, r := range results {
		retryAfter = max(retryAfter, r.retryAfter)
		switch {
		case r.Status == http.StatusNoContent:
		case r.Status == http.StatusAccepted:
			if status == http.StatusNoContent {
				status = http.StatusAccepted
			}
		case status < http.StatusMultipleChoices, retryable(r.Status) && !retryable(status):
			status = r.Status
		}
	}
	return status, retryAfter
}

// retryable reports whether the same event may be stored when it is sent again.
func retryable(status int) bool {
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
}

// answerShare is the divisor of the request memory that responses to batches may take in addition.
const answerShare = 16

// respondAll writes a response for each event, or one for all when there are no results. While publishers of too many
// batches do not read their responses, only the status is sent.
func (h *handler) respondAll(w http.ResponseWriter, results []result, resp response) {
	if results == nil {
		respond(w, resp)
		return
	}
	status, retryAfter := statusOf(results)
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return
	}
	answer := encode(results)
	size := int64(len(answer))
	if !h.answers.acquire(size) {
		respond(w, response{status: status, reason: "too many batches are being answered to say what became of each event", retryAfter: retryAfter})
		return
	}
	defer h.answers.release(size)
	start(w, status, retryAfter, typeJSON)
	_, _ = w.Write(answer)
}
