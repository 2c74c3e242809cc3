package dev

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/daemon"
)

const (
	// maxRecent and maxRecentBytes bound the events that can be replayed, and their data.
	maxRecent      = 1000
	maxRecentBytes = 16 * mebibyte
)

// recentEvents remembers the last events that were published, for a replay: the stream drops them when they are delivered.
type recentEvents struct {
	mu     sync.Mutex
	events []cloudevent.Event // the oldest first
	bytes  int
}

// add remembers an event. One that is published again within the window of deduplication is remembered once.
func (r *recentEvents) add(ev cloudevent.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.events, func(other cloudevent.Event) bool {
		return other.ID == ev.ID && other.Source == ev.Source && other.Type == ev.Type
	}) {
		return
	}
	r.events, r.bytes = append(r.events, ev), r.bytes+len(ev.Data)
	for len(r.events) > maxRecent || r.bytes > maxRecentBytes {
		r.bytes -= len(r.events[0].Data)
		r.events = slices.Delete(r.events, 0, 1)
	}
}

// Find returns the events with one of the ids, or all without ids, that have the type, whose end may be a *.
func (r *recentEvents) Find(ids []string, eventType string) []cloudevent.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found []cloudevent.Event
	for _, ev := range r.events {
		if (len(ids) == 0 || slices.Contains(ids, ev.ID)) && (eventType == "" || cloudevent.MatchesType(eventType, ev.Type)) {
			found = append(found, ev)
		}
	}
	return found
}

// remember keeps the last published events for a replay.
func (m *mode) remember(ctx context.Context) error {
	return m.conn.WatchPublished(ctx, func() {}, m.recent.add)
}

// maxWanted bounds the ids of a request.
const maxWanted = 100

// events responds with an array of the remembered events that the query selects.
func (h *ControlHandler) events(w http.ResponseWriter, r *http.Request) {
	if err := daemon.WithoutBody(w, r); err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	query := r.URL.Query()
	ids := query["id"]
	if len(ids) > maxWanted {
		fail(w, http.StatusBadRequest, "id: name at most 100 events at a time")
		return
	}
	body := []byte("[")
	for i, ev := range h.deps.Recent.Find(ids, query.Get("type")) {
		if i > 0 {
			body = append(body, ',')
		}
		body = ev.AppendStructured(body)
	}
	w.Header().Set("Content-Type", "application/cloudevents-batch+json")
	_, _ = w.Write(append(body, ']')) //nolint:gosec // JSON, which is declared as such; the client may be gone
}
