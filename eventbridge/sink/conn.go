package sink

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/httplimit"
)

// maxInterim bounds the 1xx responses before the final one.
const maxInterim = 5

// podConn is a connection to a pod, for one request at a time. It is not read while idle, so it needs no goroutine.
type podConn struct {
	conn net.Conn
	raw  syscall.RawConn
	step func(fd uintptr) (done bool) // advance
	used bool                         // for a request before

	// The context whose end interrupts the connection. Most calls have the same as the one before.
	watched <-chan struct{}
	unwatch func() bool

	// Of the current request.
	request []byte
	started bool      // a part of the request was sent
	sent    time.Time // when all of it was
	into    []byte    // where the start of the response goes
	n       int       // how much of it came
	err     error
}

// errClosed means that the pod closed the connection, or sent something, without a request.
var errClosed = errors.New("the sink ended the connection before the request")

func newPodConn(conn net.Conn) (*podConn, error) {
	raw, err := conn.(syscall.Conn).SyscallConn() // the dialer makes TCP connections
	if err != nil {
		return nil, fmt.Errorf("connect to the sink: %w", err)
	}
	w := &podConn{conn: conn, raw: raw}
	w.step = w.advance
	return w, nil
}

// begin sends the request and reads the start of the response. Both are one wait of the poller, for which the read that finds
// out whether the connection is still open counts: one more before the response is there would be in vain.
func (w *podConn) begin(into []byte) (int, error) {
	w.into, w.n, w.err = into, 0, nil
	err := w.raw.Read(w.step)
	w.into = nil
	if err != nil {
		return 0, err
	}
	return w.n, w.err
}

// advance is called once at once, and whenever the connection may be readable after that.
func (w *podConn) advance(fd uintptr) (done bool) {
	w.n, w.err = readNow(fd, w.into)
	silent := errors.Is(w.err, syscall.EAGAIN)
	if !w.sent.IsZero() {
		return !silent
	}
	switch {
	case silent:
		w.err = nil
	case w.used, w.err != nil:
		w.n, w.err = 0, errClosed
		return true
	default: // a server may answer a connection before it has read anything
	}
	if err := w.send(fd); err != nil {
		w.n, w.err = 0, err
		return true
	}
	return w.n > 0
}

// send writes the request. It usually fits into the socket's buffer.
func (w *podConn) send(fd uintptr) error {
	n, err := writeNow(fd, w.request)
	w.started = n > 0
	if n < len(w.request) && (err == nil || errors.Is(err, syscall.EAGAIN)) {
		var rest int
		rest, err = w.conn.Write(w.request[n:])
		w.started = w.started || rest > 0
	}
	if err != nil {
		return fmt.Errorf("send the event: %w", err)
	}
	w.sent = time.Now()
	return nil
}

// readNow reads what is there.
func readNow(fd uintptr, into []byte) (int, error) {
	for {
		n, err := syscall.Read(int(fd), into)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

// writeNow writes as much as there is room for.
func writeNow(fd uintptr, text []byte) (int, error) {
	for {
		n, err := syscall.Write(int(fd), text)
		if !errors.Is(err, syscall.EINTR) {
			return max(n, 0), err
		}
	}
}

// watch has the end of ctx interrupt the connection until it serves a call of another context. It returns false when the
// connection must not be used. The deadline of the call has to be set before, so that the end of ctx overwrites it.
func (w *podConn) watch(ctx context.Context) bool {
	if done := ctx.Done(); w.unwatch == nil || w.watched != done {
		if w.unwatch != nil && !w.unwatch() {
			return false // it is being interrupted
		}
		w.watched = done
		w.unwatch = context.AfterFunc(ctx, func() { _ = w.conn.SetDeadline(time.Unix(1, 0)) })
	}
	return ctx.Err() == nil
}

// Close implements io.Closer.
func (w *podConn) Close() error {
	if w.unwatch != nil {
		w.unwatch()
	}
	return w.conn.Close()
}

// exchange sends a request and reads the response, and reports whether the connection can be reused. A request of which
// nothing was sent can be sent again.
func (w *podConn) exchange(ctx context.Context, n *Network, replies replyReader, request []byte) (x exchange) {
	if !w.watch(ctx) {
		return exchange{unsent: true, err: cmp.Or(ctx.Err(), errClosed)}
	}
	defer func() {
		x.keep = x.keep && ctx.Err() == nil
		if x.err != nil && ctx.Err() != nil {
			x.err = ctx.Err()
		} else if errors.Is(x.err, os.ErrDeadlineExceeded) {
			x.err = fmt.Errorf("await the sink's answer: %w", context.DeadlineExceeded)
		}
	}()
	w.request, w.started, w.sent = request, false, time.Time{}
	r := n.borrowReader(w)
	defer n.returnReader(r)
	resp, err := r.response() //nolint:bodyclose // closing would read the rest, however long it is
	w.request, w.used = nil, true
	if err != nil {
		return exchange{unsent: !w.started, err: fmt.Errorf("read the sink's answer: %w", err), answer: dispatch.Answer{Started: w.sent}}
	}
	drained := false
	x.answer, drained, x.err = readAnswer(ctx, resp, replies)
	x.answer.Started = w.sent
	x.keep = drained && !resp.Close && r.buffer.Buffered() == 0
	return x
}

// exchange is the result of one request on a connection.
type exchange struct {
	answer dispatch.Answer
	keep   bool // the connection can be reused
	unsent bool // no byte of the request went out
	err    error
}

// reader reads responses, and sends the request before the first byte. It is the source of a bufio.Reader and bounds what
// precedes the body.
type reader struct {
	buffer *bufio.Reader
	conn   *podConn
	begun  bool
	head   httplimit.Head
	err    error // why reading ended: a line reader drops an error after a whole line
}

func (r *reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	read := r.conn.conn.Read
	if !r.begun {
		r.begun, read = true, r.conn.begin
	}
	n, err := read(p)
	if _, r.err = r.head.Read(p[:n]); r.err != nil {
		return 0, r.err
	}
	return n, err
}

// response returns the first response that is not an interim one. Its body need not be closed: the connection is.
func (r *reader) response() (*http.Response, error) {
	for range maxInterim {
		resp, err := http.ReadResponse(r.buffer, nil)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if resp.StatusCode >= http.StatusOK || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, nil
		}
	}
	return nil, errors.New("the sink sent too many interim responses")
}

func (n *Network) borrowReader(conn *podConn) *reader {
	r, ok := n.readers.Get().(*reader)
	if !ok {
		r = &reader{}
		r.buffer = bufio.NewReader(r)
	}
	r.conn, r.begun, r.head, r.err = conn, false, httplimit.Head{}, nil
	r.buffer.Reset(r)
	return r
}

func (n *Network) returnReader(r *reader) {
	r.conn = nil
	n.readers.Put(r)
}
