package activator

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/daemon"
)

// Table holds the counts of all Functions; see NewTable.
type Table struct {
	mu        sync.Mutex
	functions map[types.NamespacedName]*activation.FunctionLoad
	waiting   int
	running   int
	watchers  map[*watcher]struct{}
	none      chan struct{} // closed when the last request has ended; nil while nothing waits for it
}

// watcher collects what a stream has not sent yet.
type watcher struct {
	changed map[types.NamespacedName]struct{}
	urgent  chan struct{} // a Function has its first request
	later   chan struct{} // anything else has changed
}

// NewTable returns a table without Functions.
func NewTable() *Table {
	return &Table{functions: map[types.NamespacedName]*activation.FunctionLoad{}, watchers: map[*watcher]struct{}{}}
}

// LoadRequest is a request in progress. Its methods are called by one goroutine at a time.
type LoadRequest struct {
	table    *Table
	function types.NamespacedName
	running  bool
}

// Begin counts a request as waiting, until End.
func (t *Table) Begin(function types.NamespacedName) *LoadRequest {
	t.mu.Lock()
	defer t.mu.Unlock()
	load := t.functions[function]
	if load == nil {
		load = &activation.FunctionLoad{}
		t.functions[function] = load
	}
	first := load.Waiting+load.Running == 0
	load.Requests++
	load.Waiting++
	t.waiting++
	t.changed(function, first)
	return &LoadRequest{table: t, function: function}
}

// Run counts the request as running in a pod.
func (r *LoadRequest) Run() { r.move(true) }

// Wait counts the request as waiting for a pod.
func (r *LoadRequest) Wait() { r.move(false) }

func (r *LoadRequest) move(running bool) {
	t := r.table
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.running == running {
		return
	}
	r.running = running
	load := t.functions[r.function]
	if running {
		load.Waiting, load.Running = load.Waiting-1, load.Running+1
		t.waiting, t.running = t.waiting-1, t.running+1
	} else {
		load.Waiting, load.Running = load.Waiting+1, load.Running-1
		t.waiting, t.running = t.waiting+1, t.running-1
	}
	t.changed(r.function, false)
}

// End stops counting the request.
func (r *LoadRequest) End() {
	t := r.table
	t.mu.Lock()
	defer t.mu.Unlock()
	load := t.functions[r.function]
	if r.running {
		load.Running--
		t.running--
	} else {
		load.Waiting--
		t.waiting--
	}
	t.changed(r.function, false)
	if t.waiting+t.running == 0 && t.none != nil {
		close(t.none)
		t.none = nil
	}
}

// Totals returns the requests of all Functions.
func (t *Table) Totals() (waiting, running int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.waiting, t.running
}

// Idle returns a channel that is closed once no Function has a request.
func (t *Table) Idle() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.waiting+t.running == 0 {
		idle := make(chan struct{})
		close(idle)
		return idle
	}
	if t.none == nil {
		t.none = make(chan struct{})
	}
	return t.none
}

// Keep drops removed Functions without requests.
func (t *Table) Keep(exists func(types.NamespacedName) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for function, load := range t.functions {
		if load.Waiting+load.Running == 0 && !exists(function) {
			delete(t.functions, function)
		}
	}
}

// changed notifies the streams. The caller holds the lock.
func (t *Table) changed(function types.NamespacedName, urgent bool) {
	for w := range t.watchers {
		w.changed[function] = struct{}{}
		signal := w.later
		if urgent {
			signal = w.urgent
		}
		select {
		case signal <- struct{}{}:
		default:
		}
	}
}

// watch returns a watcher for which all Functions have changed. It returns nil when there are too many watchers.
func (t *Table) watch() *watcher {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.watchers) >= mostStreams {
		return nil
	}
	w := &watcher{
		changed: make(map[types.NamespacedName]struct{}, len(t.functions)), urgent: make(chan struct{}, 1), later: make(chan struct{}, 1),
	}
	for function := range t.functions {
		w.changed[function] = struct{}{}
	}
	t.watchers[w] = struct{}{}
	return w
}

func (t *Table) unwatch(w *watcher) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.watchers, w)
}

// take returns what has changed since the last call.
func (t *Table) take(w *watcher) activation.GatewayLoads {
	t.mu.Lock()
	defer t.mu.Unlock()
	loads := activation.GatewayLoads{Functions: make(map[string]activation.FunctionLoad, len(w.changed))}
	for function := range w.changed {
		if load := t.functions[function]; load != nil {
			loads.Functions[function.String()] = *load
		}
	}
	clear(w.changed)
	return loads
}

const (
	// mostStreams bounds the streams: more than the scalers while one deployment of them replaces another.
	mostStreams = 16
	// loadPace is the shortest time between two lines, except for a first request.
	loadPace = 100 * time.Millisecond
	// heartbeat is the longest time between two lines.
	heartbeat = time.Second
	// writeTimeout ends a stream whose reader does not read.
	writeTimeout = 2 * time.Second
)

// ServeHTTP streams the counts, one JSON object per line, until the reader disconnects or the process ends. The first
// line has all Functions, further lines the changed ones.
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
	_ = stream.SetReadDeadline(time.Time{}) // the reader sends nothing
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
