package entrance

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"
)

// body is that of a request. It may take as long as it likes, while something of it comes.
type body struct {
	io.ReadCloser
	controller *http.ResponseController
	http1      bool
	timeout    time.Duration
	rest       time.Duration // for what is left when nobody wants it
	moved      time.Time     // when the deadline was last put off
	state      atomic.Uint32
}

// States of a body: while it comes, when it was read to its end, and when it cannot be read any more.
const (
	coming uint32 = iota
	complete
	failed
)

func newBody(r *http.Request, controller *http.ResponseController, timeout, rest time.Duration) *body {
	b := &body{ReadCloser: r.Body, controller: controller, http1: r.ProtoMajor == 1, timeout: timeout, rest: rest}
	_ = b.unlimited()
	return b
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if now := time.Now(); now.Sub(b.moved) > b.timeout/4 { // rather than at each read
		b.moved = now
		_ = b.controller.SetReadDeadline(now.Add(b.timeout))
	}
	n, err := b.ReadCloser.Read(p)
	switch {
	case errors.Is(err, io.EOF):
		b.state.Store(complete)
		b.moved = time.Time{}
		_ = b.controller.SetReadDeadline(time.Time{}) // the client may be silent while it waits for its answer
	case err != nil:
		b.state.Store(failed)
	}
	return n, err
}

// unlimited puts the deadline off as far as it may be while nobody reads. Over HTTP/1 the server itself reads what is left of a body
// before it answers, and would wait for that without an end. A stream of HTTP/2 would be ended by a deadline that passes.
func (b *body) unlimited() error {
	switch state := b.state.Load(); {
	case state == failed:
		return nil
	case state == coming && b.http1:
		return b.controller.SetReadDeadline(time.Now().Add(b.timeout))
	}
	return b.controller.SetReadDeadline(time.Time{})
}

// finish is called when the handler has returned: what is left is read only so that the client reads its answer.
func (b *body) finish() {
	if b.http1 && b.state.Load() == coming {
		_ = b.controller.SetReadDeadline(time.Now().Add(b.rest))
	}
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.finish()
	return b.ReadCloser.Close()
}

// limitedWriter answers a request with a body. Handlers may put its deadline off, but not take it away.
type limitedWriter struct {
	http.ResponseWriter
	body *body
}

// SetReadDeadline is what http.ResponseController asks for.
func (w *limitedWriter) SetReadDeadline(t time.Time) error {
	if t.IsZero() {
		return w.body.unlimited()
	}
	return w.body.controller.SetReadDeadline(t)
}

// Unwrap shows an http.ResponseController what is below.
func (w *limitedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// streamWriter ends the stream of an HTTP/2 client that reads nothing. That of HTTP/1 is ended by its connection.
type streamWriter struct {
	http.ResponseWriter
	controller *http.ResponseController
	timeout    time.Duration
	timer      *time.Timer
	unsent     bool
}

func newStreamWriter(w http.ResponseWriter, controller *http.ResponseController, timeout time.Duration) *streamWriter {
	s := &streamWriter{ResponseWriter: w, controller: controller, timeout: timeout}
	s.timer = time.AfterFunc(timeout, func() { _ = controller.SetWriteDeadline(time.Unix(1, 0)) })
	s.timer.Stop()
	return s
}

// Write implements io.Writer.
func (s *streamWriter) Write(p []byte) (int, error) {
	s.timer.Reset(s.timeout)
	defer s.timer.Stop()
	s.unsent = true
	return s.ResponseWriter.Write(p)
}

// FlushError lets an http.ResponseController flush.
func (s *streamWriter) FlushError() error {
	s.timer.Reset(s.timeout)
	defer s.timer.Stop()
	s.unsent = false
	return s.controller.Flush()
}

// Unwrap shows an http.ResponseController what is below.
func (s *streamWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// finish sends the rest while it is bounded: net/http would wait for its reader without an end.
func (s *streamWriter) finish() {
	if s.unsent {
		_ = s.FlushError()
	}
}
