package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
)

// handshakes is a listener of connections that are ready for HTTP: those with TLS have shaken hands, each on its own and in the time
// for a header. net/http could do that itself, but then nothing could look into the header of a request inside TLS.
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
			case h.failed <- err: // net/http decides whether it goes on
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
		h.offer(secure) // net/http knows HTTP/2 by the type
		return
	}
	h.offer(&plaintext{Conn: secure, under: c})
}

// explainTLS answers a client that speaks HTTP where TLS is spoken.
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

// wait returns when no handshake runs any more, after Close.
func (h *handshakes) wait() { h.running.Wait() }

// plaintext is what a client that speaks HTTP/1 sends inside TLS.
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
