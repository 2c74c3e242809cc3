package envtest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// lagVariable names the environment variable with the longest delay of a watch's events, such as 1s. Empty: none.
const lagVariable = "ROUSE_WATCH_LAG"

// lag delays the events of all watches through config at random, each watch on its own, as a busy API server does: a
// test then meets the stale caches that are rare on an idle machine.
func lag(config *rest.Config) error {
	text := os.Getenv(lagVariable)
	if text == "" {
		return nil
	}
	longest, err := time.ParseDuration(text)
	if err != nil || longest <= 0 {
		return fmt.Errorf("%s=%q: must be a positive duration, such as 1s", lagVariable, text)
	}
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return &lagging{inner: inner, longest: longest} })
	return nil
}

type lagging struct {
	inner   http.RoundTripper
	longest time.Duration
}

// RoundTrip implements http.RoundTripper.
func (l *lagging) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.inner.RoundTrip(request)
	if err != nil || request.URL.Query().Get("watch") == "" {
		return response, err
	}
	response.Body = newLaggingBody(response.Body, l.longest)
	return response, nil
}

// laggingBody delivers each piece of a body late. The delays overlap, so that a busy watch is late and not slow.
type laggingBody struct {
	io.ReadCloser
	pieces chan piece
	closed chan struct{}
	close  sync.Once
	rest   piece
}

type piece struct {
	data []byte
	err  error
	due  time.Time
}

func newLaggingBody(inner io.ReadCloser, longest time.Duration) *laggingBody {
	const waiting = 10_000 // pieces, which is beyond what a test writes within the delay
	l := &laggingBody{ReadCloser: inner, pieces: make(chan piece, waiting), closed: make(chan struct{})}
	go l.pump(longest)
	return l
}

func (l *laggingBody) pump(longest time.Duration) {
	for last := (piece{}); last.err == nil; {
		data := make([]byte, 64<<10)
		n, err := l.ReadCloser.Read(data)
		due := time.Now().Add(rand.N(longest))
		if due.Before(last.due) {
			due = last.due // the order stays
		}
		last = piece{data: data[:n], err: err, due: due}
		select {
		case l.pieces <- last:
		case <-l.closed:
			return
		}
	}
}

// Read implements io.Reader.
func (l *laggingBody) Read(into []byte) (int, error) {
	if len(l.rest.data) == 0 && l.rest.err == nil {
		select {
		case l.rest = <-l.pieces:
			time.Sleep(time.Until(l.rest.due))
		case <-l.closed:
			return 0, http.ErrBodyReadAfterClose
		}
	}
	n := copy(into, l.rest.data)
	l.rest.data = l.rest.data[n:]
	if len(l.rest.data) > 0 {
		return n, nil
	}
	return n, l.rest.err
}

// Close implements io.Closer.
func (l *laggingBody) Close() error {
	l.close.Do(func() { close(l.closed) })
	return l.ReadCloser.Close()
}
