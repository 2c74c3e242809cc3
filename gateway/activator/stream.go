package activator

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/rouse-run/rouse/internal/daemon"
)

const (
	// mostStreams is how many there may be: more than scalers, while one deployment of them replaces another.
	mostStreams = 16
	// loadPace parts two lines, but for a first request.
	loadPace = 100 * time.Millisecond
	// heartbeat is the longest time between two lines.
	heartbeat = time.Second
	// writeTimeout ends a stream whose reader does not read.
	writeTimeout = 2 * time.Second
)

// ServeHTTP streams the counts, one JSON object for each line, until the reader goes or the table's process ends. All
// Functions are in the first line, those that have changed in the further ones.
func (t *Table) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := daemon.WithoutBody(w, r); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	watched := t.watch()
	if watched == nil {
		http.Error(w, "too many streams of the load", http.StatusServiceUnavailable)
		return
	}
	defer t.unwatch(watched)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	stream := http.NewResponseController(w)
	_ = stream.SetReadDeadline(time.Time{}) // the reader has nothing to say
	encoder := json.NewEncoder(w)
	for {
		_ = stream.SetWriteDeadline(time.Now().Add(writeTimeout))
		if encoder.Encode(t.take(watched)) != nil || stream.Flush() != nil {
			return
		}
		if !watched.wait(r.Context()) {
			return
		}
	}
}

// wait returns true when a line is due.
func (w *watcher) wait(ctx context.Context) bool {
	paced, beat := time.NewTimer(loadPace), time.NewTimer(heartbeat)
	defer paced.Stop()
	defer beat.Stop()
	var later <-chan struct{} // further changes, once the pace allows
	for {
		select {
		case <-ctx.Done():
			return false
		case <-w.urgent:
			return true
		case <-later:
			return true
		case <-beat.C:
			return true
		case <-paced.C:
			later = w.later
		}
	}
}
