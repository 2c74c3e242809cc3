package daemon

import (
	"errors"
	"net"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse/internal/httplimit"
)

// connection is that of one client, of which a request's header and each write are bounded.
type connection struct {
	net.Conn
	place        httplimit.Place
	writeTimeout time.Duration

	since   int64        // in nanoseconds: when it was opened, or the last request was answered
	request atomic.Int64 // since, while the server waits for a request
	pace    httplimit.Exchange

	secured bool   // what it carries is TLS
	header  header // of the reader: net/http reads one at a time
	over    error  // of the reader: why nothing is read any more
	reads   readDeadline

	// Of the writer.
	deadline time.Time // of writes
	own      bool      // a handler has set it
}

func newConnection(conn net.Conn, writeTimeout time.Duration) *connection {
	c := &connection{Conn: conn, writeTimeout: writeTimeout}
	c.awaitRequest()
	return c
}

// awaitRequest is called when no request of the client is being answered.
func (c *connection) awaitRequest() {
	c.since = time.Now().UnixNano()
	c.request.Store(c.since)
	c.header.begin()
	c.pace.Reset()
}

// measured is a connection that the listener has accepted, and whose clients are measured there as well: the streams of HTTP/2 wait for
// their client while the connection is not blocked.
type measured interface{ WaitsSince(now int64) int64 }

// WaitsSince implements pace.Client. A client that moves its bytes in time is not waited for.
func (c *connection) WaitsSince(now int64) int64 {
	if since := c.request.Load(); since != 0 {
		return since
	}
	if since := c.pace.WaitsSince(now); since != 0 {
		return since
	}
	if streams, ok := c.Conn.(measured); ok {
		return streams.WaitsSince(now)
	}
	return 0
}

// Evict implements pace.Client.
func (c *connection) Evict() { _ = c.Close() }

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
	switch {
	case c.over != nil, ahead(p):
	case c.header.open:
		c.request.Store(c.since)
	default:
		c.pace.BeginRead(time.Now())
	}
	return c.over
}

// hasRead is called with what was read of a request. It fails when its header is refused.
func (c *connection) hasRead(p []byte, n int, err error) error {
	switch {
	case ahead(p):
	case c.header.open:
		c.request.Store(0)
	default:
		c.pace.EndRead(time.Now(), n)
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
	now := time.Now()
	if !c.own && c.deadline.Sub(now) < c.writeTimeout*3/4 { // rather than at each write
		c.deadline = now.Add(c.writeTimeout)
		if err := c.Conn.SetWriteDeadline(c.deadline); err != nil {
			return 0, err
		}
	}
	c.pace.BeginWrite(now)
	n, err := c.Conn.Write(p)
	c.pace.EndWrite()
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
	c.place.Leave()
	return c.Conn.Close()
}
