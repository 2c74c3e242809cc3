package sink

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/tracecontext"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/cloudevent"
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
	for w, ok := p.idle.Take(); ok; w, ok = p.idle.Take() {
		_ = w.conn.SetDeadline(deadline) // fails only for a closed connection, as sending will
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

// use makes one exchange on a connection, and keeps it if that succeeded.
func (s *Sink) use(ctx context.Context, p *pod, w *podConn, l *requestBuffer, deadline time.Time) exchange {
	x := w.exchange(ctx, s.network, s.replies(deadline), l.text)
	if !x.keep || !p.idle.Keep(w) {
		_ = w.Close()
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
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(values[0]) {
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
