package main

import (
	"context"
	"io"
	"net/http"
	"sync"

	"github.com/rouse-run/rouse/e2e/rig"
)

// seen counts what the sink of all Subscriptions has received since it was reset.
type seen struct{ Events, Subscriptions int }

// sinkRole answers 204. The Subscriptions differ by the host that they name.
func sinkRole(ctx context.Context, ready func(string), _ []string) error {
	var mu sync.Mutex
	events, hosts := 0, map[string]bool{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		events++
		hosts[r.Host] = true
		mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /reset", func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		events, hosts = 0, map[string]bool{}
	})
	mux.HandleFunc("GET /seen", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		rig.WriteJSON(w, seen{events, len(hosts)})
	})
	return rig.Serve(ctx, 0, ready, mux)
}
