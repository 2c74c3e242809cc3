package main

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/rouse-run/rouse/e2e/rig"
)

// sinkRole answers 204 to every event and counts.
func sinkRole(ctx context.Context, ready func(string), _ []string) error {
	var count atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		count.Add(1)
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /count", func(w http.ResponseWriter, _ *http.Request) { rig.WriteJSON(w, count.Load()) })
	mux.HandleFunc("GET /reset", func(http.ResponseWriter, *http.Request) { count.Store(0) })
	return rig.Serve(ctx, 0, ready, mux)
}
