package sink

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/httplimit"
)

// maxInterim is how many answers 1xx may come before the one that counts.
const maxInterim = 5

// podConn is a connection to a pod, for one request at a time. It is not read while it idles, so it costs no goroutine.
type podConn struct {
	conn   net.Conn
	raw    syscall.RawConn
	peek   func(fd uintptr) bool
	byte   [1]byte
	silent bool        // what peek found
	expiry *time.Timer // of an idle one
}

func newPodConn(conn net.Conn) *podConn {
	w := &podConn{conn: conn}
	if tcp, ok := conn.(syscall.Conn); ok {
		w.raw, _ = tcp.SyscallConn() // without it the connection is used once
	}
	w.peek = func(fd uintptr) bool {
		_, err := syscall.Read(int(fd), w.byte[:])
		w.silent = errors.Is(err, syscall.EAGAIN)
		return true
	}
	return w
}

// alive reports whether the pod has kept the connection open, and sent nothing without a request.
func (w *podConn) alive() bool {
	return w.raw != nil && w.raw.Read(w.peek) == nil && w.silent
}

// exchange sends a request and reads its answer. The connection may be kept if it says so. What was not sent at all can
// be sent again.
func (w *podConn) exchange(ctx context.Context, n *Network, replies replyReader, request []byte) (x exchange) {
	interrupt := context.AfterFunc(ctx, func() { _ = w.conn.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if !interrupt() {
			x.keep = false
		}
		if x.err != nil && ctx.Err() != nil {
			x.err = ctx.Err()
		} else if errors.Is(x.err, os.ErrDeadlineExceeded) {
			x.err = fmt.Errorf("await the answer: %w", context.DeadlineExceeded)
		}
	}()
	written, err := w.conn.Write(request)
	if err != nil {
		return exchange{unsent: written == 0, err: fmt.Errorf("send the event: %w", err)}
	}
	x.answer.Started = time.Now()
	r := n.borrowReader(w.conn)
	defer n.returnReader(r)
	resp, err := r.response() //nolint:bodyclose // closing would read the rest, however long it is
	if err != nil {
		x.err = fmt.Errorf("read the answer: %w", err)
		return x
	}
	started, drained := x.answer.Started, false
	x.answer, drained, x.err = readAnswer(ctx, resp, replies)
	x.answer.Started = started
	x.keep = drained && !resp.Close && r.buffer.Buffered() == 0
	return x
}

// exchange is how one went.
type exchange struct {
	answer dispatch.Answer
	keep   bool // the connection can be used again
	unsent bool // no byte of the request went out
	err    error
}

// reader reads answers. It is a bufio.Reader's source, and bounds what comes before the body.
type reader struct {
	buffer *bufio.Reader
	conn   net.Conn
	head   httplimit.Head
	err    error // why no more is read: a reader of lines drops an error behind a whole line
}

func (r *reader) Read(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	n, err := r.conn.Read(p)
	if _, r.err = r.head.Read(p[:n]); r.err != nil {
		return 0, r.err
	}
	return n, err
}

// response is the first answer that is not an interim one. Its body need not be closed: the connection is.
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
	return nil, errors.New("too many interim answers")
}

func (n *Network) borrowReader(conn net.Conn) *reader {
	r, ok := n.readers.Get().(*reader)
	if !ok {
		r = &reader{}
		r.buffer = bufio.NewReader(r)
	}
	r.conn, r.head, r.err = conn, httplimit.Head{}, nil
	r.buffer.Reset(r)
	return r
}

func (n *Network) returnReader(r *reader) {
	r.conn = nil
	n.readers.Put(r)
}

// connPool holds the idle connections to one pod. The last used is used first, so that superfluous ones expire.
type connPool struct {
	mu   sync.Mutex
	idle []*podConn
}

// acquire returns an idle connection that is alive at least until the deadline; nil if there is none.
func (ws *connPool) acquire(deadline time.Time) *podConn {
	for {
		w := ws.pop()
		if w == nil {
			return nil
		}
		w.expiry.Stop()
		if w.conn.SetDeadline(deadline) == nil && w.alive() {
			return w
		}
		_ = w.conn.Close()
	}
}

func (ws *connPool) pop() *podConn {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	last := len(ws.idle) - 1
	if last < 0 {
		return nil
	}
	w := ws.idle[last]
	ws.idle[last] = nil
	ws.idle = ws.idle[:last]
	return w
}

// keep lets a connection idle for a while.
func (ws *connPool) keep(w *podConn) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.idle = append(ws.idle, w)
	if w.expiry == nil {
		w.expiry = time.AfterFunc(idleTimeout, func() { ws.expire(w) })
	} else {
		w.expiry.Reset(idleTimeout)
	}
}

// expire closes a connection if it idles.
func (ws *connPool) expire(w *podConn) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for i, idle := range ws.idle {
		if idle == w {
			ws.idle = append(ws.idle[:i], ws.idle[i+1:]...)
			_ = w.conn.Close()
			return
		}
	}
}

// close closes what idles.
func (ws *connPool) close() {
	for w := ws.pop(); w != nil; w = ws.pop() {
		w.expiry.Stop()
		_ = w.conn.Close()
	}
}
