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
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/tracecontext"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/httplimit"
)

// maxDirect is the largest body that is sent without net/http, and maxRequest the largest request. They fit into the
// socket buffers, so that a server that answers before it has read everything does not block the bridge.
const (
	maxDirect  = 16 << 10
	maxRequest = 2 * maxDirect
)

// direct sends a small event over plain HTTP to a pod. It costs less than http.Transport: no goroutines per connection,
// one write per request, and only reused memory.
func (s *Sink) direct(ctx context.Context, p *pod, ev *cloudevent.Event) (dispatch.Answer, error) {
	l := s.network.borrowRequestBuffer()
	defer s.network.returnRequestBuffer(l)
	if err := l.write(s.opening, s.login, ev); err != nil {
		return dispatch.Answer{}, err
	}
	if len(l.text) > maxRequest {
		return s.post(ctx, &p.url, ev)
	}
	deadline := time.Now().Add(s.target.Timeout)
	for w := p.connPool.acquire(deadline); w != nil; w = p.connPool.acquire(deadline) {
		if x := s.use(ctx, p, w, l, deadline); !x.unsent || ctx.Err() != nil {
			return x.answer, x.err
		}
	}
	w, err := s.connect(ctx, p, deadline)
	if err != nil {
		return dispatch.Answer{}, err
	}
	x := s.use(ctx, p, w, l, deadline)
	return x.answer, x.err
}

// use makes one exchange on a connection and returns it to the pool if that succeeded.
func (s *Sink) use(ctx context.Context, p *pod, w *podConn, l *requestBuffer, deadline time.Time) exchange {
	x := w.exchange(ctx, s.network, s.replies(deadline), l.text)
	if x.keep {
		p.connPool.keep(w)
	} else {
		_ = w.conn.Close()
	}
	return x
}

// connect opens a connection that can be used until the deadline. A timeout is not the pod's fault.
func (s *Sink) connect(ctx context.Context, p *pod, deadline time.Time) (*podConn, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	conn, err := s.network.dialer.DialContext(ctx, "tcp", p.url.Host)
	switch {
	case err == nil:
	case !time.Now().Before(deadline): // the dialer may notice it before the context does
		return nil, fmt.Errorf("connect to the sink: %w", context.DeadlineExceeded)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("connect to the sink: %w", ctx.Err())
	default:
		return nil, err
	}
	_ = conn.SetDeadline(deadline) // fails only for a closed connection, as writing will
	return newPodConn(conn)
}

// requestBuffer is a request in writing and its reusable memory.
type requestBuffer struct {
	header http.Header
	text   []byte
}

func (n *Network) borrowRequestBuffer() *requestBuffer {
	if l, ok := n.requestBuffers.Get().(*requestBuffer); ok {
		return l
	}
	return &requestBuffer{header: make(http.Header, headers)}
}

func (n *Network) returnRequestBuffer(l *requestBuffer) {
	clear(l.header)
	n.requestBuffers.Put(l)
}

// write writes the request into the buffer.
func (l *requestBuffer) write(opening string, login []string, ev *cloudevent.Event) error {
	ev.SetHeader(l.header)
	tracecontext.Inject(l.header)
	if login != nil {
		l.header["Authorization"] = login
	}
	l.text = append(l.text[:0], opening...)
	for name, values := range l.header {
		if !isToken(name) || !isLine(values[0]) {
			return fmt.Errorf("%w: header %q", dispatch.ErrUnsendable, name)
		}
		l.text = append(l.text, name...)
		l.text = append(l.text, ": "...)
		l.text = append(l.text, values[0]...)
		l.text = append(l.text, "\r\n"...)
	}
	l.text = append(l.text, "Content-Length: "...)
	l.text = strconv.AppendInt(l.text, int64(len(ev.Data)), 10)
	l.text = append(l.text, "\r\n\r\n"...)
	l.text = append(l.text, ev.Data...)
	return nil
}

// openingOf returns the start of all requests to a pod.
func openingOf(uri, host string) string {
	return "POST " + uri + " HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: Go-http-client/1.1\r\n" +
		activation.HeaderVia + ": " + activation.ViaEventbridge + "\r\n"
}

// isToken reports whether text is a valid header name.
func isToken(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return text != ""
}

// isLine reports whether text is a valid header value.
func isLine(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < ' ' && c != '\t') || c == 0x7f {
			return false
		}
	}
	return true
}

// maxInterim bounds the 1xx responses before the final one.
const maxInterim = 5

// podConn is a connection to a pod, for one request at a time. It is not read while idle, so it needs no goroutine.
type podConn struct {
	conn   net.Conn
	raw    syscall.RawConn
	step   func(fd uintptr) (done bool) // advance
	used   bool                         // for a request before
	expiry *time.Timer                  // of an idle connection

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
	w.into = into
	err := w.raw.Read(w.step)
	w.into = nil
	return w.n, cmp.Or(w.err, err)
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

// exchange sends a request and reads the response, and reports whether the connection can be reused. A request of which
// nothing was sent can be sent again.
func (w *podConn) exchange(ctx context.Context, n *Network, replies replyReader, request []byte) (x exchange) {
	interrupt := context.AfterFunc(ctx, func() { _ = w.conn.SetDeadline(time.Unix(1, 0)) })
	defer func() {
		if !interrupt() {
			x.keep = false
		}
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

// connPool holds the idle connections to one pod. The most recently used is used first, so that superfluous ones
// expire.
type connPool struct {
	mu   sync.Mutex
	idle []*podConn
}

// acquire returns an idle connection that can be used until the deadline, nil if there is none.
func (ws *connPool) acquire(deadline time.Time) *podConn {
	for {
		w := ws.pop()
		if w == nil {
			return nil
		}
		w.expiry.Stop()
		if w.conn.SetDeadline(deadline) == nil {
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

// keep returns a connection to the pool for a while.
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

// expire closes a connection if it is idle.
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

// close closes the idle connections.
func (ws *connPool) close() {
	for w := ws.pop(); w != nil; w = ws.pop() {
		w.expiry.Stop()
		_ = w.conn.Close()
	}
}
