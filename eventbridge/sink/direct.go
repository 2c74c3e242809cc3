package sink

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/tracecontext"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// maxDirect is the largest body that is sent without net/http, and maxRequest the largest request. They fit into the
// buffers of a connection, so that a server that answers before it has read all does not block us.
const (
	maxDirect  = 16 << 10
	maxRequest = 2 * maxDirect
)

// direct sends a small event over plain HTTP to a pod. It does what http.Transport does with less: no goroutines for a
// connection, one write for a request, and nothing to allocate that can be used again.
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
	if w := p.connPool.acquire(deadline); w != nil {
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

// use has one exchange on a connection, and keeps it if that went well.
func (s *Sink) use(ctx context.Context, p *pod, w *podConn, l *requestBuffer, deadline time.Time) exchange {
	x := w.exchange(ctx, s.network, s.replies(deadline), l.text)
	if x.keep {
		p.connPool.keep(w)
	} else {
		_ = w.conn.Close()
	}
	return x
}

// connect makes a connection for use until the deadline. Running out of time says nothing about the pod.
func (s *Sink) connect(ctx context.Context, p *pod, deadline time.Time) (*podConn, error) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	conn, err := s.network.dialer.DialContext(ctx, "tcp", p.url.Host)
	switch {
	case err == nil:
	case !time.Now().Before(deadline): // which the dialer may notice before the context does
		return nil, fmt.Errorf("connect: %w", context.DeadlineExceeded)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("connect: %w", ctx.Err())
	default:
		return nil, err
	}
	_ = conn.SetDeadline(deadline) // fails only for a connection that is closed, as writing will
	return newPodConn(conn), nil
}

// requestBuffer is a request as it is written, and what is needed to write it.
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

// write makes the request.
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

// openingOf is how all requests to a pod begin.
func openingOf(uri, host string) string {
	return "POST " + uri + " HTTP/1.1\r\nHost: " + host + "\r\nUser-Agent: Go-http-client/1.1\r\n" +
		activation.HeaderVia + ": " + activation.ViaEventbridge + "\r\n"
}

// isToken reports whether a text can be the name of a header.
func isToken(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return text != ""
}

// isLine reports whether a text can be the value of a header.
func isLine(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < ' ' && c != '\t') || c == 0x7f {
			return false
		}
	}
	return true
}
