package daemon

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
)

// handshakes is a listener of connections that are ready for HTTP: TLS handshakes are complete. Each runs on its own
// goroutine within the timeout for a header. net/http could run them itself, but then nothing could inspect the header
// of a request inside TLS.
type handshakes struct {
	*connections
	config func(net.Conn) *tls.Config
	ready  chan net.Conn
	failed chan error

	ctx     context.Context //nolint:containedctx // of all handshakes, which end with the listener
	stop    context.CancelFunc
	running sync.WaitGroup
}

func newHandshakes(clients *connections, config func(net.Conn) *tls.Config) *handshakes {
	ctx, stop := context.WithCancel(context.Background())
	h := &handshakes{connections: clients, config: config, ready: make(chan net.Conn), failed: make(chan error), ctx: ctx, stop: stop}
	h.running.Go(h.accept)
	return h
}

func (h *handshakes) accept() {
	for {
		conn, err := h.connections.Accept()
		if err != nil {
			select {
			case h.failed <- err: // net/http decides whether to continue
			case <-h.ctx.Done():
			}
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		c, config := connectionOf(conn), h.config(conn)
		if config == nil {
			h.offer(conn)
			continue
		}
		c.secured = true
		h.running.Go(func() { h.shake(c, config) })
	}
}

func (h *handshakes) shake(c *connection, config *tls.Config) {
	ctx, cancel := context.WithTimeout(h.ctx, readHeaderTimeout)
	defer cancel()
	secure := tls.Server(c, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		explainTLS(err)
		_ = c.Close()
		return
	}
	if secure.ConnectionState().NegotiatedProtocol == "h2" {
		h.offer(secure) // net/http detects HTTP/2 by the type
		return
	}
	h.offer(&plaintext{Conn: secure, under: c})
}

// explainTLS responds to a client that speaks HTTP on a TLS port.
func explainTLS(err error) {
	var record tls.RecordHeaderError
	if !errors.As(err, &record) || record.Conn == nil {
		return
	}
	switch string(record.RecordHeader[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH":
		_, _ = io.WriteString(record.Conn, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"+
			"This port speaks HTTPS\n")
	}
}

func (h *handshakes) offer(conn net.Conn) {
	select {
	case h.ready <- conn:
	case <-h.ctx.Done():
		_ = conn.Close()
	}
}

// Accept implements net.Listener.
func (h *handshakes) Accept() (net.Conn, error) {
	select {
	case conn := <-h.ready:
		return conn, nil
	case err := <-h.failed:
		return nil, err
	case <-h.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *handshakes) Close() error {
	h.stop()
	return h.connections.Close()
}

// wait blocks until all handshakes have ended, after Close.
func (h *handshakes) wait() { h.running.Wait() }

// plaintext is the decrypted HTTP/1 stream of a client.
type plaintext struct {
	*tls.Conn
	under *connection
}

// Read implements net.Conn.
func (p *plaintext) Read(b []byte) (int, error) {
	if err := p.under.willRead(b); err != nil {
		return 0, err
	}
	n, err := p.Conn.Read(b)
	if wrong := p.under.hasRead(b, n, err); wrong != nil {
		refuse(p, wrong)
		return 0, wrong
	}
	return n, err
}

// maxHeaderLines bounds the lines of a request's header, including the first: 64 extensions of an event, and the
// headers that clients and proxies add. net/http bounds only their bytes, and each line of four bytes takes a hundred
// in memory.
const maxHeaderLines = 128

// A request is rejected with one of these errors because of its header. net/http sends no response to errors of their
// type.
var (
	errManyHeaders = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("the request has too many headers")}
	errTwoLengths  = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("the request has Content-Length and Transfer-Encoding")}
)

const (
	contentLength    = "content-length:"
	transferEncoding = "transfer-encoding:"
)

// header scans the lines of a request's header as they are read. It ignores everything after the empty line that ends
// the header, including a request that was sent before the previous one was answered.
type header struct {
	open   bool
	lines  int
	length int                         // of the current, incomplete line
	last   byte                        // of it
	start  [len(transferEncoding)]byte // of it
	sized  bool                        // has a Content-Length
	coded  bool                        // has a Transfer-Encoding
}

func (h *header) begin() { *h = header{open: true} }

func (h *header) end() { h.open = false }

// read fails when the header has too many lines, or defines the end of its body in two ways, because a proxy in front
// of this server may have chosen the other way.
func (h *header) read(p []byte) error {
	for h.open && len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		part := p
		if i >= 0 {
			part = p[:i]
		}
		if len(part) > 0 {
			if h.length < len(h.start) {
				copy(h.start[h.length:], part)
			}
			h.length, h.last = h.length+len(part), part[len(part)-1]
		}
		if i < 0 {
			return nil
		}
		p = p[i+1:]
		if err := h.endLine(); err != nil {
			return err
		}
	}
	return nil
}

func (h *header) endLine() error {
	length := h.length
	h.length = 0
	if length == 0 || length == 1 && h.last == '\r' {
		if h.lines > 0 { // net/http ignores empty lines before the first
			h.end()
		}
		return nil
	}
	if h.lines++; h.lines > maxHeaderLines {
		return errManyHeaders
	}
	switch h.start[0] {
	case 'C', 'c':
		h.sized = h.sized || h.names(length, contentLength)
	case 'T', 't':
		h.coded = h.coded || h.names(length, transferEncoding)
	}
	if h.sized && h.coded {
		return errTwoLengths
	}
	return nil
}

// names reports whether the current line begins with a name.
func (h *header) names(length int, name string) bool {
	return length >= len(name) && strings.EqualFold(string(h.start[:len(name)]), name)
}

// halfConn is a connection whose write side can be closed first.
type halfConn interface {
	io.Writer
	CloseWrite() error
}

// refuse responds to a request that net/http does not receive completely.
func refuse(c halfConn, why error) {
	text := "431 Request Header Fields Too Large"
	if errors.Is(why, errTwoLengths) {
		text = "400 Bad Request: Content-Length beside Transfer-Encoding"
	}
	status, _, _ := strings.Cut(text, ":")
	_, _ = io.WriteString(c, "HTTP/1.1 "+status+"\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"+text)
	_ = c.CloseWrite()
}
