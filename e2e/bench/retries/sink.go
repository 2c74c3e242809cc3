package main

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
)

// seen has the lateness of second attempts since the sink was reset, in milliseconds.
type seen struct {
	Events         int
	P50, P99, Most float64
}

// attempts are those of events that fail once.
type attempts struct {
	mu     sync.Mutex
	failed map[string]time.Time
	late   []time.Duration
}

// ServeHTTP fails the first attempt. A Retry-After beyond the longest delay has the event wait for exactly that.
func (a *attempts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	id := r.Header.Get("Ce-Id")
	a.mu.Lock()
	defer a.mu.Unlock()
	if failed, again := a.failed[id]; again {
		a.late = append(a.late, now.Sub(failed.Add(delay)))
		delete(a.failed, id)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	a.failed[id] = now
	w.Header().Set("Retry-After", "60")
	w.WriteHeader(http.StatusInternalServerError)
}

func (a *attempts) reset(http.ResponseWriter, *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed, a.late = map[string]time.Time{}, nil
}

func (a *attempts) seen(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.late) == 0 {
		rig.WriteJSON(w, seen{})
		return
	}
	rig.WriteJSON(w, seen{
		Events: len(a.late), P50: rig.Milliseconds(a.late, 50), P99: rig.Milliseconds(a.late, 99), Most: rig.Milliseconds(a.late, 100),
	})
}

func sinkRole(ctx context.Context, ready func(string), _ []string) error {
	a := &attempts{failed: map[string]time.Time{}}
	mux := http.NewServeMux()
	mux.Handle("POST /", a)
	mux.HandleFunc("GET /reset", a.reset)
	mux.HandleFunc("GET /seen", a.seen)
	return rig.Serve(ctx, 0, ready, mux)
}
