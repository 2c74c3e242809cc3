package ingress

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

var errEmptyBatch = errors.New("the batch has no events")

// result is what became of one event of a batch.
type result struct {
	ID     string `json:"id,omitempty"` // as far as it could be read
	Source string `json:"source,omitempty"`
	Status int    `json:"status"`
	Reason string `json:"reason,omitempty"`

	retryAfter int
}

// publishBatch stores the events of a batch and says what became of each of them, in their order, or of all.
func (h *handler) publishBatch(w http.ResponseWriter, r *http.Request, may Permission) ([]result, response) {
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
	return h.storeAll(r, members, may), response{}
}

// storeAll gives what is valid to the publisher, all at a time.
func (h *handler) storeAll(r *http.Request, members [][]byte, may Permission) []result {
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

// decodeMember reads one event. The trace of the request counts for events that have none of their own.
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
	return result{ID: brief(ev.ID), Source: brief(ev.Source), Status: resp.status, Reason: resp.reason, retryAfter: resp.retryAfter}
}

// statusOf is the status of the whole answer: 204 when all events are stored. Else it is that of the first event for which
// trying again helps, so that a publisher that reads nothing else sends the batch again, or of the first that failed.
func statusOf(results []result) (status, retryAfter int) {
	status = http.StatusNoContent
	for _, r := range results {
		retryAfter = max(retryAfter, r.retryAfter)
		switch {
		case r.Status == http.StatusNoContent:
		case status == http.StatusNoContent, retryable(r.Status) && !retryable(status):
			status = r.Status
		}
	}
	return status, retryAfter
}

// retryable reports whether the same event may be stored when it is sent again.
func retryable(status int) bool {
	return status >= http.StatusInternalServerError || status == http.StatusTooManyRequests
}

// answerShare is which part of the memory for requests answers to batches may take besides.
const answerShare = 16

// respondAll answers for each event, or for all when there are no results. While too many batches are answered whose
// publishers do not read, the status has to do.
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
		respond(w, response{status, "too many batches are being answered to say what became of each event", retryAfter})
		return
	}
	defer h.answers.release(size)
	start(w, status, retryAfter, typeJSON)
	_, _ = w.Write(answer)
}
