package forward

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/httplimit"
)

const bufferBytes = 32 << 10

// IsDial reports whether no connection could be made, so that nothing was sent.
func IsDial(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "dial"
}

// Silent discards net/http's log lines about clients that disconnect.
var Silent = log.New(io.Discard, "", 0)

// Buffers is the pool of buffers for copying responses.
var Buffers httputil.BufferPool = &bufferPool{pool: sync.Pool{New: func() any { return new([bufferBytes]byte) }}}

type bufferPool struct{ pool sync.Pool }

// Get implements httputil.BufferPool.
func (b *bufferPool) Get() []byte {
	if buffer, ok := b.pool.Get().(*[bufferBytes]byte); ok {
		return buffer[:]
	}
	return make([]byte, bufferBytes)
}

// Put implements httputil.BufferPool.
func (b *bufferPool) Put(buffer []byte) { b.pool.Put((*[bufferBytes]byte)(buffer)) }

// LeastRate is how many bytes of a body per second a caller has to send, beyond the time for which it may send nothing.
const LeastRate = 1 << 10

// Caller identifies the sender of a request.
type Caller struct {
	httplimit.Client

	Key httplimit.Key
}

type contextKey struct{}

// With adds the caller of a request to its context.
func With(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// Of returns the caller of a request: the one in its context, or the remote address of its connection.
func Of(r *http.Request) Caller {
	if found, ok := r.Context().Value(contextKey{}).(*Caller); ok {
		return *found
	}
	return Caller{unmeasured{}, httplimit.KeyOfPort(r.RemoteAddr)}
}

// unmeasured is a caller of unknown pace: it is never evicted.
type unmeasured struct{}

func (unmeasured) WaitsSince(int64) int64 { return 0 }
func (unmeasured) Evict()                 {}

// headMemory bounds the memory of the long heads of all responses in progress.
const headMemory = 32 << 20

// Heads bounds the heads of backends' responses, by namespace.
type Heads struct{ memory *fair.Pool }

// NewHeads returns Heads for all responses of a process.
func NewHeads() *Heads { return &Heads{fair.NewPool(fair.Limits{Total: headMemory})} }

// Open begins the account of a request to a backend of a namespace.
func (h *Heads) Open(account *httplimit.HeadAccount, namespace string) {
	account.Open(h.memory, namespace)
}

// RoundTrip sends a request with an account in its context, which bounds the head of the response. The transport counts
// the bytes.
func RoundTrip(transport http.RoundTripper, r *http.Request, account *httplimit.HeadAccount) (*http.Response, error) {
	answer, err := transport.RoundTrip(r)
	return checked(answer, err, account)
}

// checked returns a response whose head is within its bounds.
func checked(answer *http.Response, err error, account *httplimit.HeadAccount) (*http.Response, error) {
	if refused := account.Refused(); err != nil && refused != nil {
		return nil, refused
	} else if err != nil {
		return nil, err
	}
	if err := httplimit.CheckHead(answer.Header); err != nil {
		_ = answer.Body.Close()
		return nil, err
	}
	return answer, nil
}

// RefusedHead returns why the head of a response was refused; empty if the request failed for another reason.
func RefusedHead(err error) string {
	if refused, ok := errors.AsType[httplimit.HeadError](err); ok {
		return refused.Error()
	}
	return ""
}

// cleanTrailer removes Rouse's own headers from the trailer of a response, which is complete when the body has ended.
func cleanTrailer(answer *http.Response) {
	if len(answer.TransferEncoding) > 0 { // only a chunked response has a trailer
		RemoveOwn(answer.Trailer)
		answer.Body = &trailed{answer.Body, answer}
	}
}

type trailed struct {
	io.ReadCloser
	of *http.Response
}

// arrived reports whether reading does not wait for the backend.
func (t *trailed) arrived() bool {
	under, ok := t.ReadCloser.(interface{ arrived() bool })
	return ok && under.arrived()
}

// Read implements io.Reader.
func (t *trailed) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		RemoveOwn(t.of.Trailer)
		if many := httplimit.CheckHead(t.of.Trailer); many != nil {
			return n, many
		}
	}
	return n, err
}

// OwnPrefix is the prefix of headers for internal use between parts of Rouse.
const OwnPrefix = "Rouse-"

// HeaderServiceTime has Envoy's name: it tells how many milliseconds the backend took. Only a gateway may say so.
const HeaderServiceTime = "X-Envoy-Upstream-Service-Time"

// Writer writes a response and records whether it has begun.
type Writer struct {
	http.ResponseWriter

	body *Body // of the request; nil: it has none
	last bool  // the connection ends with the response
	code int
}

// NewWriter returns a Writer on w.
func NewWriter(w http.ResponseWriter) *Writer {
	return &Writer{ResponseWriter: w, last: w.Header().Get("Connection") == "close"}
}

// Await makes the response end the connection if it begins before the request body has ended, because the rest of the
// body would be read as the next request.
func (w *Writer) Await(body *Body) { w.body = body }

// Code returns the status of the response; 0: none yet.
func (w *Writer) Code() int { return w.code }

// WriteHeader implements http.ResponseWriter.
func (w *Writer) WriteHeader(code int) {
	if code < http.StatusOK && code != http.StatusSwitchingProtocols {
		cleanInterim(w.Header())
		w.ResponseWriter.WriteHeader(code)
		return
	}
	if w.code != 0 {
		return
	}
	w.code = code
	if code != http.StatusSwitchingProtocols && (w.last || w.body != nil && w.body.http1 && !w.body.Whole()) {
		w.Header().Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(code)
}

// cleanInterim removes headers from 1xx responses, which httputil.ReverseProxy forwards unchanged.
func cleanInterim(header http.Header) {
	RemoveOwn(header)
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Connection", "Te", "Trailer", "Upgrade"} {
		delete(header, name)
	}
}

// RemoveOwn removes headers that only Rouse sets, and those that servers confuse with the ones for internal use.
func RemoveOwn(header http.Header) {
	delete(header, HeaderServiceTime)
	for name := range header {
		if len(name) >= len(OwnPrefix) && strings.EqualFold(strings.ReplaceAll(name[:len(OwnPrefix)], "_", "-"), OwnPrefix) {
			delete(header, name)
		}
	}
}

// Write implements http.ResponseWriter.
func (w *Writer) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

func (w *Writer) begin() {
	if w.code == 0 {
		w.WriteHeader(http.StatusOK)
	}
}

// FlushError implements the interface of http.ResponseController.
func (w *Writer) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack implements http.Hijacker. Only upgraded connections are hijacked.
func (w *Writer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, both, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err == nil {
		w.code = http.StatusSwitchingProtocols
	}
	return conn, both, err
}

// Unwrap lets http.ResponseController find other methods.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// AbortUnlessAnswered aborts a request without a response: a handler that returns would send 200.
func (w *Writer) AbortUnlessAnswered() {
	if w.code == 0 {
		panic(http.ErrAbortHandler)
	}
}

// restTimeout bounds how long an unread request body is discarded before the connection is closed.
const restTimeout = time.Second

var errEnded = errors.New("the request has been answered")

// Body is a request body. It may take any time as long as the caller sends at the least rate.
type Body struct {
	under   io.ReadCloser
	w       http.ResponseWriter
	timeout time.Duration
	http1   bool
	whole   atomic.Bool
	last    atomic.Bool // the deadline is final

	reading sync.Mutex
	pace    httplimit.Meter
	until   time.Time // the deadline
	err     error     // why reading ended
}

// NewBody bounds how long the caller may send nothing of its body, and how far it may be behind LeastRate. The server's
// own timeout covers the whole request, and would end streams.
func NewBody(r *http.Request, w http.ResponseWriter, timeout time.Duration) *Body {
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	b := &Body{under: r.Body, w: w, timeout: timeout, pace: httplimit.Meter{Rate: LeastRate}, http1: r.ProtoMajor == 1}
	b.whole.Store(r.Body == nil || r.ContentLength == 0)
	return b
}

// Read implements io.Reader.
func (b *Body) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	late := b.pace.Begin(time.Now()).Add(b.timeout)
	if !b.last.Load() && (late.Before(b.until) || late.Sub(b.until) > b.timeout/4) { // not at each read
		b.until = late
		b.endAt(late)
	}
	n, err := b.read(p)
	b.pace.End(time.Now(), n)
	return n, err
}

func (b *Body) read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.under.Read(p)
	if err != nil {
		b.err = err
	}
	if errors.Is(err, io.EOF) {
		b.whole.Store(true)
		b.endAt(time.Time{}) // a caller may be silent while it waits for the response
	}
	return n, err
}

func (b *Body) endAt(t time.Time) { _ = http.NewResponseController(b.w).SetReadDeadline(t) }

// Whole reports whether the body was read to its end.
func (b *Body) Whole() bool { return b.whole.Load() }

// Failure returns the response to a caller whose body was truncated; 0 when it may still complete. It waits for the
// read in progress: net/http ends the context of a request before such a read returns.
func (b *Body) Failure() (status int, text string) {
	b.reading.Lock()
	defer b.reading.Unlock()
	switch {
	case b.err == nil || b.whole.Load():
		return 0, ""
	case errors.Is(b.err, os.ErrDeadlineExceeded):
		return http.StatusRequestTimeout, "the body of the request did not come in time"
	default:
		return http.StatusBadRequest, "the body of the request is malformed, or ended before its length"
	}
}

// End is called after the response, or when there is none. It ends the connection of a body that did not reach its end,
// because net/http would read the rest as the next request. A little of the rest is discarded, so that the caller reads
// the response.
func (b *Body) End() {
	if b.whole.Load() {
		return
	}
	if b.http1 {
		endConnection(b.w)
	}
	b.last.Store(true)
	b.endAt(time.Now().Add(restTimeout))
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.err == nil {
		b.err = errEnded
		_ = b.under.Close()
	}
}

// Close implements io.Closer. The body ends with its request.
func (b *Body) Close() error { return nil }

// endConnection makes net/http close the connection after the response, also if the header was already sent, as it does
// for a body that is larger than a handler allows.
func endConnection(w http.ResponseWriter) {
	for {
		wrapper, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			break
		}
		w = wrapper.Unwrap()
	}
	_, _ = http.MaxBytesReader(w, io.NopCloser(oneByte{}), 0).Read(make([]byte, 1))
}

// oneByte is an endless body.
type oneByte struct{}

func (oneByte) Read(p []byte) (int, error) { return min(1, len(p)), nil }
