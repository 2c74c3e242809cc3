package forward

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/net/http/httpguts"

	"github.com/rouse-run/rouse/internal/endpoint"
	"github.com/rouse-run/rouse/internal/httplimit"
)

// maxWhole is the largest body that is sent together with its head. net/http reads as much at a time.
const maxWhole = 4 << 10

// Transport connects to backends and sends requests over HTTP/1.1. A request without a body, or whose body came with its head, goes
// out in one piece on a connection that needs no goroutine. http.Transport sends the others, and upgrades.
type Transport struct {
	streams *http.Transport
	dial    httplimit.DialFunc
	idle    sync.Map  // of *endpoint.Idle[*conn] by address
	readers sync.Pool // of *bufio.Reader
	texts   sync.Pool // of *[]byte
}

// NewTransport returns a Transport that connects by dial. With fresh it opens a connection for each request.
func NewTransport(dial httplimit.DialFunc, fresh bool) *Transport {
	dial = httplimit.CountHeads(dial)
	t := &Transport{streams: &http.Transport{
		DialContext:            dial,
		DisableCompression:     true,
		DisableKeepAlives:      fresh,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        endpoint.IdleTimeout,
		MaxResponseHeaderBytes: 2 * httplimit.MaxHeadBytes, // connections count heads themselves
	}}
	if !fresh {
		t.dial = dial
	}
	return t
}

// CloseIdleConnections closes the idle connections.
func (t *Transport) CloseIdleConnections() {
	t.streams.CloseIdleConnections()
	t.idle.Range(func(_, value any) bool {
		value.(*endpoint.Idle[*conn]).Close() //nolint:forcetypeassert // there are no others
		return true
	})
}

// Send sends the request of an exchange to an address, and returns its response. Interim responses are forwarded before. It reads
// nothing of the body if no connection can be made.
func (t *Transport) Send(x *Exchange, r *http.Request, address string) (*http.Response, error) {
	answer, err := t.send(x, r, address)
	if answer, err = checked(answer, err, &x.Head); err != nil {
		return nil, err
	}
	cleanTrailer(answer)
	return answer, nil
}

func (t *Transport) send(x *Exchange, r *http.Request, address string) (*http.Response, error) {
	body, short := shortBody(r)
	if t.dial == nil || x.streams || !short || !isPlain(r) {
		return t.stream(x, r, address)
	}
	c, err := t.connect(r.Context(), address)
	if err != nil {
		return nil, err
	}
	whole, ok := body.whole(r.ContentLength)
	if !ok {
		_ = c.Close()
		return t.stream(x, r, address)
	}
	text, ok := t.texts.Get().(*[]byte)
	if !ok {
		text = new([]byte)
	}
	*text = append(appendHead((*text)[:0], r), whole...)
	answer, err := t.sendWhole(x, r, c, *text)
	t.texts.Put(text)
	return answer, err
}

// stream sends a request by http.Transport.
func (t *Transport) stream(x *Exchange, r *http.Request, address string) (*http.Response, error) {
	out := r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn:        func(info httptrace.GotConnInfo) { x.Head.Picked(info.Conn) },
		Got1xxResponse: x.interim,
	}))
	to := *r.URL
	to.Scheme, to.Host = "http", address
	out.URL = &to
	if r.Body != nil {
		out.Body = io.NopCloser(r.Body) // a failed dial has not read it, and must not close it
	}
	return t.streams.RoundTrip(out)
}

// begun is a body of which the beginning may have been read before it is sent.
type begun struct {
	io.ReadCloser
	read  bool
	start []byte
	err   error // behind start
}

// whole returns the body if all of it comes with one read, for which it may wait. A nil body is empty.
func (b *begun) whole(length int64) ([]byte, bool) {
	if b == nil {
		return nil, true
	}
	if !b.read {
		b.read, b.start = true, make([]byte, length)
		n, err := b.ReadCloser.Read(b.start)
		b.start, b.err = b.start[:n], err
	}
	return b.start, int64(len(b.start)) == length && errors.Is(b.err, io.EOF)
}

// Read implements io.Reader.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.start) > 0 {
		n := copy(p, b.start)
		b.start = b.start[n:]
		return n, nil
	}
	if b.err != nil {
		return 0, b.err
	}
	return b.ReadCloser.Read(p)
}

// shortBody returns the body of a request that may come with one read, nil for none.
func shortBody(r *http.Request) (*begun, bool) {
	if r.Body == nil {
		return nil, true
	}
	body, ok := r.Body.(*begun)
	return body, ok && r.ContentLength > 0 && r.ContentLength <= maxWhole && len(r.Trailer) == 0
}

// isPlain reports whether a request is written as it is. http.Transport decides about the others.
func isPlain(r *http.Request) bool {
	if r.Method == http.MethodConnect || !httpguts.ValidHeaderFieldName(r.Method) || !isHost(r.Host) || r.URL.Opaque != "" {
		return false
	}
	for name, values := range r.Header {
		if !httpguts.ValidHeaderFieldName(name) || slices.ContainsFunc(values, isNoValue) {
			return false
		}
	}
	return true
}

func isNoValue(text string) bool { return !httpguts.ValidHeaderFieldValue(text) }

// isHost reports whether text is a host that is sent as it is, with or without a port.
func isHost(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' && c != ':' {
			return false
		}
	}
	return text != ""
}

// appendHead appends the head of a plain request as net/http writes it, but for the order of the headers.
func appendHead(text []byte, r *http.Request) []byte {
	text = append(append(append(text, r.Method...), ' '), r.URL.RequestURI()...)
	text = appendLine(append(text, " HTTP/1.1\r\n"...), "Host", r.Host)
	for name, values := range r.Header {
		switch name {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			continue
		case "User-Agent":
			if len(values) == 0 || values[0] == "" {
				continue
			}
			values = values[:1]
		}
		for _, value := range values {
			text = appendLine(text, name, value)
		}
	}
	if r.Body != nil || r.Method == http.MethodPost || r.Method == http.MethodPut || r.Method == http.MethodPatch {
		text = append(strconv.AppendInt(append(text, "Content-Length: "...), r.ContentLength, 10), "\r\n"...)
	}
	return append(text, "\r\n"...)
}

func appendLine(text []byte, name, value string) []byte {
	return append(append(append(append(text, name...), ": "...), textproto.TrimString(value)...), "\r\n"...)
}

// isRepeatable reports whether a request may be sent again on another connection when the first one was closed before it answered:
// http.Transport does so as well.
func isRepeatable(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return r.Body == nil
	}
	return false
}

// connect returns an idle connection, or a new one.
func (t *Transport) connect(ctx context.Context, address string) (*conn, error) {
	if c := t.take(address); c != nil {
		return c, nil
	}
	dialled, err := t.dial(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return newConn(dialled, address), nil
}

// sendWhole sends the text of a request, on another connection if the first one turns out to be closed.
func (t *Transport) sendWhole(x *Exchange, r *http.Request, c *conn, text []byte) (*http.Response, error) {
	for check := c.used || r.Body != nil; ; check = c.used { // the body may have come late
		var answer *http.Response
		again, err := true, errClosed
		if !check || c.alive() {
			answer, again, err = t.exchange(x, r, c, text)
			again = again && c.used
		}
		if err == nil {
			return answer, nil
		}
		_ = c.Close()
		if !again || r.Context().Err() != nil {
			return nil, err
		}
		if c, err = t.connect(r.Context(), c.address); err != nil {
			return nil, err
		}
	}
}

var errClosed = errors.New("the connection is closed")

// exchange sends a request on a connection, and reports whether one that failed can be repeated.
func (t *Transport) exchange(x *Exchange, r *http.Request, c *conn, text []byte) (answer *http.Response, again bool, err error) {
	x.Head.Picked(c.Conn)
	a := &answerBody{transport: t, conn: c, unwatch: context.AfterFunc(r.Context(), c.interrupt)}
	defer func() {
		if err != nil {
			a.unwatch()
			t.putReader(a.reader)
			if ended := r.Context().Err(); ended != nil {
				err = ended
			}
		}
	}()
	if n, err := c.Write(text); err != nil {
		return nil, n == 0, err
	}
	a.reader = t.reader(c)
	if _, err := a.reader.Peek(1); err != nil {
		return nil, isRepeatable(r), err
	}
	if answer, err = x.read(a.reader, r); err != nil {
		return nil, false, err
	}
	a.keeps = !answer.Close && answer.StatusCode != http.StatusSwitchingProtocols && !promisesBody(answer)
	if answer.Body == http.NoBody {
		a.finish(true)
	} else {
		a.ReadCloser, answer.Body = answer.Body, a
	}
	return answer, false, nil
}

// read reads a response, and forwards the interim ones before it.
func (x *Exchange) read(from *bufio.Reader, r *http.Request) (*http.Response, error) {
	for {
		answer, err := http.ReadResponse(from, r)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if answer.StatusCode >= http.StatusOK || answer.StatusCode == http.StatusSwitchingProtocols {
			return answer, nil
		}
		_ = x.interim(answer.StatusCode, textproto.MIMEHeader(answer.Header))
	}
}

// promisesBody reports whether a response whose status allows no body announces one. The bytes after it would be read as the next
// response.
func promisesBody(answer *http.Response) bool {
	if answer.Body != http.NoBody || answer.StatusCode != http.StatusNoContent {
		return false
	}
	length := answer.Header.Get("Content-Length")
	return len(answer.TransferEncoding) > 0 || length != "" && length != "0"
}
