package function

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"strings"
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
	load     load
	draining atomic.Bool
	hanging  atomic.Int64
	upgraded upgradedConnections
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
		case loadPath:
			d.load.answer(w)
			return
		case "/favicon.ico":
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	from := d.load.begin(r.Header)
	defer d.load.end(from)
	d.call(w, r)
}

func (d *dispatcher) call(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := contextOf(r)
	defer cancel()
	made := &call{start: time.Now(), place: beginServer(r.Header)}
	r = r.WithContext(context.WithValue(ctx, callKey{}, made))
	made.request = r
	answer := &answer{to: w, header: http.Header{}, upgraded: &d.upgraded}
	d.run(answer, made)
	answer.awaitClose()
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

// run waits for the handler, and for the body that it gets, or for the end of their time.
func (d *dispatcher) run(w *answer, made *call) {
	if made.request.ContentLength > settings.bodyLimit {
		w.to.Header().Set("Connection", "close")
		http.Error(w, "Request Entity Too Large", http.StatusRequestEntityTooLarge)
		return
	}
	made.request.Body = http.MaxBytesReader(w.to, made.request.Body, settings.bodyLimit)
	over := make(chan struct{})
	go func() {
		defer close(over)
		d.handled(w, made)
	}()
	end := time.NewTimer(settings.timeout) // who has asked may be gone before: a handler that takes no notice of it still has its time
	defer end.Stop()
	select {
	case <-over:
		return
	case <-end.C:
	}
	if !w.expire() {
		<-over // the connection is the handler's
		return
	}
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

// handled calls the handler, and keeps a panic from ending the process.
func (d *dispatcher) handled(w *answer, made *call) {
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
	event, err := eventAhead(made.request)
	if err != nil {
		Fail(w, err)
		return
	}
	made.event = event
	d.handle(w, made.request)
}
