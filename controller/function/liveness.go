package function

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// shortestHang is what a reconciliation may take at any rate: the API server may be slow.
const shortestHang = time.Minute

// busyWorkers notice when all of them hang: none has begun or ended anything for a while, and all are busy.
type busyWorkers struct {
	all int
	now func() time.Time

	mu       sync.Mutex
	busy     int
	progress time.Time
}

// begin notes a reconciliation, until its end.
func (w *busyWorkers) begin() (end func()) {
	w.note(1)
	return func() { w.note(-1) }
}

func (w *busyWorkers) note(change int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy += change
	w.progress = w.now()
}

// hang is for how long all workers have been busy with the same, 0 when one is not.
func (w *busyWorkers) hang() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy < w.all {
		return 0
	}
	return w.now().Sub(w.progress)
}

// Healthy is a check of the process: an error means that the workers of the Function controller hang for longer than the settings allow,
// which is for ever where they say nothing.
func (l *Live) Healthy(*http.Request) error {
	most := l.load().hang
	if most <= 0 {
		return nil
	}
	if hang := l.workers.hang(); hang > max(most, shortestHang) {
		return fmt.Errorf("all workers of the Function controller hang for %s", hang)
	}
	return nil
}
