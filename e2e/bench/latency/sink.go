package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
)

// seen is what the sink knows of the events since it was reset, in milliseconds.
type seen struct {
	Events         int
	P50, P99, Most float64
}

// ages are those of events that should have been sent at a time or later.
type ages struct {
	mu   sync.Mutex
	from time.Time
	all  []time.Duration
}

func (a *ages) add(sent, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !sent.Before(a.from) {
		a.all = append(a.all, now.Sub(sent))
	}
}

func (a *ages) reset(from time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.from, a.all = from, nil
}

func (a *ages) seen() seen {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) == 0 {
		return seen{}
	}
	return seen{
		Events: len(a.all), P50: rig.Milliseconds(a.all, 50), P99: rig.Milliseconds(a.all, 99), Most: rig.Milliseconds(a.all, 100),
	}
}

// sinkRole answers 204 and compares the time in each event's data with its own clock, which is the publisher's.
func sinkRole(ctx context.Context, ready func(string), _ []string) error {
	a := &ages{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		now := time.Now()
		body, err := io.ReadAll(r.Body)
		var nanos int64
		if err == nil {
			_, err = fmt.Sscanf(string(body[:min(len(body), 40)]), `{"at":%d,`, &nanos)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.add(time.Unix(0, nanos), now)
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /reset", func(_ http.ResponseWriter, r *http.Request) {
		from, _ := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
		a.reset(time.Unix(0, from))
	})
	mux.HandleFunc("GET /seen", func(w http.ResponseWriter, _ *http.Request) { rig.WriteJSON(w, a.seen()) })
	return rig.Serve(ctx, 0, ready, mux)
}
