package daemon

import (
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// connection is that of one client, of which a request's header and each write are bounded.
type connection struct {
	net.Conn
	all     *connections
	address string // without the port

	since atomic.Int64  // in nanoseconds: when it was opened, or the last request was answered
	waits atomic.Uint32 // for its client: to send, to read, or both

	secured bool   // what it carries is TLS
	header  header // of the reader: net/http reads one at a time
	over    error  // of the reader: why nothing is read any more
	reads   readDeadline

	// Of the writer.
	deadline time.Time // of writes
	own      bool      // a handler has set it
}

// What a connection waits for its client to do.
const (
	toSend uint32 = 1 << iota
	toRead
)

func newConnection(conn net.Conn, all *connections) *connection {
	address := conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	c := &connection{Conn: conn, all: all, address: address}
	c.since.Store(time.Now().UnixNano())
	c.waits.Store(toSend) // until its first byte is there
	c.header.begin()
	return c
}

// Read implements net.Conn.
func (c *connection) Read(p []byte) (int, error) {
	if c.secured {
		return c.read(p)
	}
	if err := c.willRead(p); err != nil {
		return 0, err
	}
	n, err := c.read(p)
	if wrong := c.hasRead(p, n, err); wrong != nil {
		refuse(c, wrong)
		return 0, wrong
	}
	return n, err
}

func (c *connection) read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for err != nil && c.reads.extend(c.Conn, err) {
		n, err = c.Conn.Read(p)
	}
	return n, err
}

// ahead reports whether net/http reads into p while the handler works.
func ahead(p []byte) bool { return len(p) == 1 }

// willRead is called before a request is read. It fails when a read has failed before: net/http takes that for the end of the
// connection, and ends the context of all its requests.
func (c *connection) willRead(p []byte) error {
	if c.over == nil && !ahead(p) {
		c.waits.Or(toSend)
	}
	return c.over
}

// hasRead is called with what was read of a request. It fails when its header is refused.
func (c *connection) hasRead(p []byte, n int, err error) error {
	if !ahead(p) {
		c.waits.And(^toSend)
	}
	wrong := c.header.read(p[:n])
	switch {
	case wrong != nil:
		c.over = wrong
	case err != nil && (!ahead(p) || !c.reads.interrupted()):
		c.over = err
	}
	return wrong
}

// Write implements net.Conn.
func (c *connection) Write(p []byte) (int, error) {
	if now := time.Now(); !c.own && c.deadline.Sub(now) < c.all.writeTimeout*3/4 { // rather than at each write
		c.deadline = now.Add(c.all.writeTimeout)
		if err := c.Conn.SetWriteDeadline(c.deadline); err != nil {
			return 0, err
		}
	}
	c.waits.Or(toRead)
	n, err := c.Conn.Write(p)
	c.waits.And(^toRead)
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

// NetConn is what the listener has accepted.
func (c *connection) NetConn() net.Conn { return c.Conn }

// Close implements net.Conn.
func (c *connection) Close() error {
	c.all.remove(c)
	return c.Conn.Close()
}
