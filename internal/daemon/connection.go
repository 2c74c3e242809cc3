package daemon

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// connection is that of one client, of which a request's header and each write are bounded.
type connection struct {
	net.Conn
	all     *connections
	address string // without the port

	since atomic.Int64 // in nanoseconds: when it was opened, or the last request was answered
	waits atomic.Bool  // for its client to send or to read

	header header // of the reader: net/http reads one at a time
	reads  readDeadline

	// Of the writer.
	deadline time.Time // of writes
	own      bool      // a handler has set it
}

func newConnection(conn net.Conn, all *connections) *connection {
	address := conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	c := &connection{Conn: conn, all: all, address: address}
	c.since.Store(time.Now().UnixNano())
	c.waits.Store(true) // until its first byte is there
	c.header.begin()
	return c
}

// Read implements net.Conn.
func (c *connection) Read(p []byte) (int, error) {
	ahead := len(p) == 1 // what net/http reads while the handler works
	if !ahead {
		c.waits.Store(true)
	}
	n, err := c.Conn.Read(p)
	for err != nil && c.reads.extend(c.Conn, err) {
		n, err = c.Conn.Read(p)
	}
	if !ahead {
		c.waits.Store(false)
	}
	if !c.header.read(p[:n]) {
		c.refuse()
		return 0, errManyHeaders
	}
	return n, err
}

// errManyHeaders ends a request. net/http answers nothing to errors of this type.
var errManyHeaders = &net.OpError{Op: "read", Net: "tcp", Err: errors.New("the request has too many headers")}

func (c *connection) refuse() {
	const answer = "HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n" +
		"431 Request Header Fields Too Large"
	_, _ = io.WriteString(c, answer)
	_ = c.CloseWrite()
}

// Write implements net.Conn.
func (c *connection) Write(p []byte) (int, error) {
	if now := time.Now(); !c.own && c.deadline.Sub(now) < c.all.writeTimeout*3/4 { // rather than at each write
		c.deadline = now.Add(c.all.writeTimeout)
		if err := c.Conn.SetWriteDeadline(c.deadline); err != nil {
			return 0, err
		}
	}
	c.waits.Store(true)
	n, err := c.Conn.Write(p)
	c.waits.Store(false)
	return n, err
}

// SetReadDeadline implements net.Conn.
func (c *connection) SetReadDeadline(t time.Time) error { return c.reads.set(c.Conn, t) }

// SetDeadline implements net.Conn.
func (c *connection) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetWriteDeadline implements net.Conn. Without a deadline of the handler's there is that of the server.
func (c *connection) SetWriteDeadline(t time.Time) error {
	if t.IsZero() && !c.own {
		return nil
	}
	c.own, c.deadline = !t.IsZero(), time.Time{}
	return c.Conn.SetWriteDeadline(t)
}

// CloseWrite lets net/http tell a client to read the answer before the connection ends.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.all.remove(c)
	return c.Conn.Close()
}
