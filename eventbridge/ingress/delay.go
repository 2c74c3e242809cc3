package ingress

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/rouse-run/rouse/eventbridge/chain"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// The headers of a request whose events are due later: a time by RFC 3339, or a duration such as 90m. They are no attributes, since
// an event that is passed on must not wait again.
const (
	headerDeliverAt    = "Rouse-Deliver-At"
	headerDeliverAfter = "Rouse-Deliver-After"
)

// Delay stores an event that is due later, and returns the id by which it can be cancelled. later is false for an event that
// is due now, and not stored.
type Delay func(ctx context.Context, ev *cloudevent.Event, due time.Time) (id string, later bool, err error)

// delayedEvent describes an event that is due later in a response.
type delayedEvent struct {
	ID  string    `json:"id"`
	Due time.Time `json:"due"`
}

var (
	errNoDelays    = errors.New("this installation delays no events")
	errLegacyDelay = fmt.Errorf("%s and %s are for /publish: events of this path go on at once", headerDeliverAt, headerDeliverAfter)
)

// dueOf returns when the events of a request are due; zero: at once.
func dueOf(header http.Header, now time.Time) (time.Time, error) {
	at, after := header.Get(headerDeliverAt), header.Get(headerDeliverAfter)
	switch {
	case len(header.Values(headerDeliverAt))+len(header.Values(headerDeliverAfter)) > 1:
		return time.Time{}, fmt.Errorf("set %s or %s, once", headerDeliverAt, headerDeliverAfter)
	case at != "":
		due, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return time.Time{}, fmt.Errorf("%s must be a time such as 2027-01-01T09:00:00Z, is %.64q", headerDeliverAt, at)
		}
		return due, nil
	case after != "":
		wait, err := time.ParseDuration(after)
		if err != nil || wait < 0 {
			return time.Time{}, fmt.Errorf("%s must be a duration such as 90m, is %.64q", headerDeliverAfter, after)
		}
		return now.Add(wait), nil
	default:
		return time.Time{}, nil
	}
}

// withoutDelay refuses requests whose events are due later, which would otherwise go on at once.
func withoutDelay(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(headerDeliverAt)+r.Header.Get(headerDeliverAfter) != "" {
			respond(w, refusal(errLegacyDelay))
			return
		}
		next(w, r)
	}
}

// delayOne stores an event that is due later and returns the response to its publisher. later is false for one that is due now.
func (h *handler) delayOne(r *http.Request, pass *chain.Pass, ev *cloudevent.Event, due time.Time) (resp response, later bool) {
	if h.delay == nil {
		return refusal(errNoDelays), true
	}
	started := time.Now()
	var id string
	var failed error
	busy := h.inPlaces(r, ev.Publisher, 1, func(ctx context.Context) { id, later, failed = h.delay(ctx, ev, due) })
	err := cmp.Or(busy, failed)
	if err == nil && !later {
		return response{}, false
	}
	resp = h.settle(pass, ev, err, time.Since(started))
	if err == nil {
		resp = response{status: http.StatusAccepted, delayed: &delayedEvent{ID: id, Due: due.UTC()}}
	}
	return resp, true
}
