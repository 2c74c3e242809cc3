package forward

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse/internal/httplimit"
)

// restTimeout bounds for how long the rest of a body is read that nobody wants.
const restTimeout = time.Second

var errEnded = errors.New("the request has been answered")

// Body is that of a request. It may take as long as it likes, while its caller sends as much as he has to.
type Body struct {
	under   io.ReadCloser
	w       http.ResponseWriter
	timeout time.Duration
	http1   bool
	whole   atomic.Bool
	last    atomic.Bool // the deadline is not put off any more

	reading sync.Mutex
	pace    httplimit.Meter
	until   time.Time // the deadline
	err     error     // why no more is read
}

// NewBody bounds for how long the caller of a request may send nothing of its body, and be behind caller.LeastRate. The server's own limit is for the whole of a
// request, and would end streams.
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
	if !b.last.Load() && (late.Before(b.until) || late.Sub(b.until) > b.timeout/4) { // rather than at each read
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
		b.endAt(time.Time{}) // a caller may be silent while he waits for his answer
	}
	return n, err
}

func (b *Body) endAt(t time.Time) { _ = http.NewResponseController(b.w).SetReadDeadline(t) }

// Whole reports whether the body has been read to its end.
func (b *Body) Whole() bool { return b.whole.Load() }

// Failure is what a caller is told whose body did not come to its end; 0 when that may still come. It waits for the read that
// is under way: net/http ends the context of a request before such a read returns.
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

// End is called after the answer, and when there is none. The connection of a body that did not reach its end is over: with
// reading and writing at the same time net/http would read the rest as the next request. A little of it is read all the same, so
// that the caller reads his answer.
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

// Close implements io.Closer. The body is over with its request.
func (b *Body) Close() error { return nil }

// endConnection has net/http close the connection of a request after its answer, also where the header of that is out already:
// so it does for a body that is larger than a handler allows.
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

// oneByte is larger than nothing.
type oneByte struct{}

func (oneByte) Read(p []byte) (int, error) { return min(1, len(p)), nil }
