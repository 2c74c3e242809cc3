package function

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// call is a request that the handler answers.
type call struct {
	request *http.Request
	event   *Event // nil when the request carries none
	place   place
	start   time.Time
}

type callKey struct{}

func callOf(ctx context.Context) *call {
	found, _ := ctx.Value(callKey{}).(*call)
	return found
}

// mostHanging is how many calls may be past their time and still run before the process is replaced.
const mostHanging = 50

// dispatcher calls the handler.
type dispatcher struct {
	handle   http.HandlerFunc
	metrics  *metrics
	draining atomic.Bool
	hanging  atomic.Int64
	wornOut  func()
}

// ServeHTTP answers what the server answers by itself, and calls the handler for the rest.
func (d *dispatcher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		switch r.URL.Path {
		case "/healthz":
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			_, _ = w.Write([]byte("OK")) // who has asked may be gone
			return
		case "/metrics":
			w.Header().Set("Content-Type", metricsType)
			var text strings.Builder
			d.metrics.write(&text)
			_, _ = io.WriteString(w, text.String()) // who has asked may be gone
			return
		case "/favicon.ico":
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	d.call(w, r)
}

func (d *dispatcher) call(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), settings.timeout)
	defer cancel()
	made := &call{start: time.Now(), place: beginServer(r.Header)}
	r = r.WithContext(context.WithValue(ctx, callKey{}, made))
	made.request = r
	answer := &answer{to: w, header: http.Header{}}
	d.run(ctx, answer, made)
	answer.mu.Lock()
	status, size, err, expired, broken := answer.status, answer.size, answer.err, answer.expired, answer.broken
	answer.mu.Unlock()
	d.metrics.count(r.Method, time.Since(made.start), expired || status >= http.StatusInternalServerError)
	made.endServer(status, err, expired)
	if settings.requestLog {
		logRequest(r, status, size)
	}
	if broken {
		panic(http.ErrAbortHandler) // who has asked must not take a part for the whole
	}
}

// run waits for the handler or for the end of its time.
func (d *dispatcher) run(ctx context.Context, w *answer, made *call) {
	if made.request.ContentLength > settings.bodyLimit {
		w.to.Header().Set("Connection", "close")
		http.Error(w, "Request Entity Too Large", http.StatusRequestEntityTooLarge)
		return
	}
	made.request.Body = http.MaxBytesReader(w.to, made.request.Body, settings.bodyLimit)
	event, err := eventAhead(made.request)
	if err != nil {
		Fail(w, err)
		return
	}
	made.event = event
	over := make(chan struct{})
	go func() {
		defer close(over)
		d.handled(w, made.request)
	}()
	select {
	case <-over:
		return
	case <-ctx.Done():
	}
	select {
	case <-over:
		return
	default:
	}
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		<-over // who has asked is gone; a handler that takes no notice of it still has its time
		return
	}
	w.expire()
	fmt.Fprintf(os.Stderr, "%s %s: the handler did not end within %s\n", made.request.Method, made.request.URL.Path, settings.timeout)
	if d.hanging.Add(1) >= mostHanging {
		d.wornOut()
	}
	go func() {
		<-over
		d.hanging.Add(-1)
	}()
}

// eventAhead is the event of a request in as far as its emitted events need it before a handler has read it. One that is
// malformed is the handler's to refuse.
func eventAhead(r *http.Request) (*Event, error) {
	if mediaType(r.Header.Get("Content-Type")) == structured {
		if _, err := bodyOf(r); err != nil {
			return nil, err
		}
		event, err := fromBody(r)
		if err != nil {
			return nil, nil //nolint:nilerr,nilnil // see above
		}
		return event, nil
	}
	if r.Header.Get("Ce-Type") == "" || r.Header.Get("Ce-Source") == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	event := &Event{ID: decoded(r.Header.Get("Ce-Id"))}
	if hops := r.Header.Get("Ce-" + extensionHops); hops != "" {
		event.Extensions = map[string]string{extensionHops: hops}
	}
	return event, nil
}

// handled keeps a panic from ending the process.
func (d *dispatcher) handled(w *answer, r *http.Request) {
	defer func() {
		problem := recover()
		if problem == nil {
			w.end()
			return
		}
		if err, ok := problem.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			w.abort()
			return
		}
		fmt.Fprintf(os.Stderr, "panic: %v\n%s", problem, ownFrames(string(debug.Stack())))
		w.fail(fmt.Errorf("%v", problem))
		if !w.refuse(http.StatusInternalServerError, internalError) {
			w.abort()
		}
	}()
	d.handle(w, r)
}

// answer is what a handler writes to. Once its time is over, nothing of it reaches the connection any more.
type answer struct {
	to     http.ResponseWriter
	header http.Header

	mu      sync.Mutex
	status  int // 0: nothing is written
	size    int64
	err     error
	expired bool
	broken  bool
}

var _ http.Flusher = (*answer)(nil)

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin(status)
}

// begin writes the status and the headers, once.
func (a *answer) begin(status int) {
	if a.expired || a.status != 0 {
		return
	}
	header := a.to.Header()
	maps.Copy(header, a.header)
	if status >= 200 {
		a.status = status
	}
	a.to.WriteHeader(status)
}

func (a *answer) Write(text []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.expired {
		return 0, http.ErrHandlerTimeout
	}
	a.begin(http.StatusOK)
	n, err := a.to.Write(text)
	a.size += int64(n)
	return n, err
}

func (a *answer) Flush() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.expired {
		return
	}
	a.begin(http.StatusOK)
	if flusher, ok := a.to.(http.Flusher); ok {
		flusher.Flush()
	}
}

func (a *answer) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

// end is the end of a handler that has returned.
func (a *answer) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin(http.StatusOK)
}

func (a *answer) abort() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken = !a.expired
}

// refuse answers for a handler that has not begun to. It is false when that has.
func (a *answer) refuse(status int, text string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.status != 0 {
		return false
	}
	a.header = http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
	a.begin(status)
	n, _ := a.to.Write([]byte(text)) // who has asked may be gone
	a.size = int64(n)
	return true
}

// expire answers for a handler that takes too long.
func (a *answer) expire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer func() { a.expired = true }()
	if a.status != 0 {
		a.broken = true
		return
	}
	a.status = http.StatusRequestTimeout
	header := a.to.Header()
	header.Set("Connection", "close")
	header.Set("Content-Type", "text/plain; charset=utf-8")
	a.to.WriteHeader(http.StatusRequestTimeout)
	_, _ = a.to.Write([]byte("Timeout while processing the function")) // who has asked may be gone
}
