package entrance

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/httplimit"
)

// body is a request body. It may take any time as long as the client sends at the least rate.
type body struct {
	io.ReadCloser
	client  *request
	pace    httplimit.Meter
	timeout time.Duration
	rest    time.Duration // for the rest of an unread body
	state   atomic.Uint32
}

// States of a body: arriving, read to its end, and closed.
const (
	coming uint32 = iota
	complete
	failed
)

func newBody(r *http.Request, client *request, timeout, rest time.Duration) *body {
	b := &body{ReadCloser: r.Body, client: client, pace: httplimit.Meter{Rate: forward.LeastRate}, timeout: timeout, rest: rest}
	_ = b.unlimited()
	return b
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	now := time.Now()
	if err := b.client.extend(b.pace.Begin(now).Add(b.timeout), b.timeout/4); err != nil {
		b.state.Store(failed)
		return 0, err
	}
	b.client.BeginRead(now)
	n, err := b.ReadCloser.Read(p)
	now = time.Now()
	b.client.EndRead(now, n)
	b.pace.End(now, n)
	switch {
	case errors.Is(err, io.EOF):
		b.state.Store(complete)
		_ = b.client.setReadDeadline(time.Time{}) // the client may be silent while it waits for the response
	case err != nil:
		b.state.Store(failed)
	}
	return n, err
}

// unlimited moves the deadline as far as possible while nothing reads. Over HTTP/1 the server itself reads the rest of
// a body before it responds, and would wait forever without a deadline. A deadline that passes would end an HTTP/2
// stream.
func (b *body) unlimited() error {
	switch state := b.state.Load(); {
	case state == failed:
		return nil
	case state == coming && b.client.http1:
		return b.client.setReadDeadline(time.Now().Add(b.timeout))
	}
	return b.client.setReadDeadline(time.Time{})
}

// finish is called when the handler has returned: the rest is discarded only so that the client reads the response.
func (b *body) finish() {
	if b.client.http1 && b.state.Load() == coming {
		_ = b.client.setReadDeadline(time.Now().Add(b.rest))
	}
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.finish()
	return b.ReadCloser.Close()
}

// measuredWriter measures how long a client does not read.
type measuredWriter struct {
	http.ResponseWriter
	client *request
}

// Write implements io.Writer.
func (w *measuredWriter) Write(p []byte) (int, error) {
	w.client.BeginWrite(time.Now())
	defer w.client.EndWrite()
	return w.ResponseWriter.Write(p)
}

// FlushError lets an http.ResponseController flush.
func (w *measuredWriter) FlushError() error {
	w.client.BeginWrite(time.Now())
	defer w.client.EndWrite()
	return w.client.controller.Flush()
}

// Unwrap returns the writer below for http.ResponseController.
func (w *measuredWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// limitedWriter writes the response to a request with a body. Handlers may extend its read deadline but not remove it.
type limitedWriter struct {
	http.ResponseWriter
	body *body
}

// SetReadDeadline implements the interface of http.ResponseController.
func (w *limitedWriter) SetReadDeadline(t time.Time) error {
	if t.IsZero() {
		return w.body.unlimited()
	}
	return w.body.client.setReadDeadline(t)
}

// Unwrap returns the writer below for http.ResponseController.
func (w *limitedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// streamWriter ends the stream of an HTTP/2 client that reads nothing. An HTTP/1 response ends with its connection.
type streamWriter struct {
	http.ResponseWriter
	controller *http.ResponseController
	timeout    time.Duration
	timer      *time.Timer
	unsent     bool
}

func newStreamWriter(w http.ResponseWriter, timeout time.Duration) *streamWriter {
	controller := http.NewResponseController(w)
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

// Unwrap returns the writer below for http.ResponseController.
func (s *streamWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// finish flushes the rest within a deadline: net/http would wait for the client forever.
func (s *streamWriter) finish() {
	if s.unsent {
		_ = s.FlushError()
	}
}

const forwardedProto = "X-Forwarded-Proto"

// cleanHeaders removes headers that a client must not set. Names with _ for - count alike, because CGI-like servers do
// not distinguish them.
func cleanHeaders(header http.Header, trusted, secure bool) {
	for name := range header {
		if !allowed(name, trusted) {
			delete(header, name)
		}
	}
	if proto := header[forwardedProto]; len(proto) != 1 || (proto[0] != "http" && proto[0] != "https") {
		header[forwardedProto] = []string{schemeOf(secure)}
	}
	if upgrade, ok := header["Upgrade"]; ok && (len(upgrade) != 1 || !strings.EqualFold(upgrade[0], "websocket")) {
		delete(header, "Upgrade")
		delete(header, "Http2-Settings")
	}
}

func schemeOf(secure bool) string {
	if secure {
		return "https"
	}
	return "http"
}

func allowed(name string, trusted bool) bool {
	plain := name
	if strings.Contains(name, "_") {
		plain = strings.ReplaceAll(name, "_", "-")
		trusted = false // such spellings are not trusted, because anyone may use them
	}
	switch {
	case hasPrefixFold(plain, "Rouse-"):
		return false
	case hasPrefixFold(plain, "X-Forwarded-"), strings.EqualFold(plain, "Forwarded"), strings.EqualFold(plain, "X-Real-IP"):
		return trusted
	}
	return true
}

func hasPrefixFold(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}
