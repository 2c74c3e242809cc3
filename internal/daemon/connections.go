package daemon

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse/internal/httplimit"
)

// defaultMaxConnections is the limit of a Server without a configured one.
const defaultMaxConnections = 1024

// Share bounds the connections of one key, such as an address.
type Share struct {
	// Of returns the key of a connection.
	Of func(net.Conn) httplimit.Key
	// Most is the maximum number of connections of a key; 0: no more than it leaves free.
	Most int
}

// connections bounds the number of clients of a server, and how many of them share a key. At the limit a new connection
// evicts the one that the server has waited for longest: a client that sends its request and reads its response
// promptly is served beside any number of others.
type connections struct {
	net.Listener
	places       *httplimit.Places
	shares       []Share
	writeTimeout time.Duration
	full         func(evicted int, refused bool) // called when the limit was reached
}

func newConnections(listener net.Listener, s *Server) *connections {
	l := &connections{Listener: listener, shares: s.Shares, writeTimeout: cmp.Or(s.WriteTimeout, defaultWriteTimeout), full: s.Full}
	if len(l.shares) == 0 {
		l.shares = []Share{{Of: func(c net.Conn) httplimit.Key { return httplimit.Key{Name: addressOf(c), Unshared: true} }}}
	}
	perKey := make([]int, len(l.shares))
	for i, each := range l.shares {
		perKey[i] = each.Most
	}
	l.places = httplimit.NewPlaces(cmp.Or(s.MaxConnections, defaultMaxConnections), perKey...)
	return l
}

// addressOf returns the address of a client without its port.
func addressOf(c net.Conn) string {
	address := c.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// Accept implements net.Listener.
func (l *connections) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if accepted := l.add(conn); accepted != nil {
			return accepted, nil
		}
		_ = conn.Close() // all others are being served
	}
}

func (l *connections) add(conn net.Conn) net.Conn {
	accepted, keys := newConnection(conn, l.writeTimeout), make([]httplimit.Key, len(l.shares))
	for i, each := range l.shares {
		keys[i] = each.Of(conn)
	}
	ok, evicted := l.places.Take(&accepted.place, accepted, keys...)
	if l.full != nil && (evicted > 0 || !ok) {
		l.full(evicted, !ok)
	}
	if !ok {
		return nil
	}
	return accepted
}

// follow is the server's callback for the state of a connection.
func (l *connections) follow(conn net.Conn, state http.ConnState) {
	c := connectionOf(conn)
	if c == nil {
		return
	}
	switch state {
	case http.StateActive:
		c.header.end()
		c.request.Store(0)
	case http.StateIdle:
		c.awaitRequest()
	case http.StateNew, http.StateHijacked, http.StateClosed: // counted from Accept to Close
	}
}

// connectionOf unwraps the connection that the server accepted.
func connectionOf(conn net.Conn) *connection {
	for {
		switch c := conn.(type) {
		case *connection:
			return c
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return nil
		}
	}
}

// connection is the connection of one client. It bounds the header of each request and the time of each write.
type connection struct {
	net.Conn
	place        httplimit.Place
	writeTimeout time.Duration

	since   int64        // in nanoseconds: when it was opened, or the last response was completed
	request atomic.Int64 // since, while the server waits for a request
	pace    httplimit.Exchange

	secured bool   // it carries TLS
	header  header // of the reader: net/http reads one at a time
	over    error  // of the reader: why reading has ended
	reads   readDeadline

	// Fields of the writer.
	deadline time.Time // of writes
	own      bool      // set by a handler
}

func newConnection(conn net.Conn, writeTimeout time.Duration) *connection {
	c := &connection{Conn: conn, writeTimeout: writeTimeout}
	c.awaitRequest()
	return c
}

// awaitRequest is called while no request of the client is being served.
func (c *connection) awaitRequest() {
	c.since = time.Now().UnixNano()
	c.request.Store(c.since)
	c.header.begin()
	c.pace.Reset()
}

// measured is a connection that the listener has accepted and that measures its own clients: the streams of HTTP/2 wait
// for their client while the connection is not blocked.
type measured interface{ WaitsSince(now int64) int64 }

// WaitsSince implements pace.Client. It is zero for a client that moves its bytes in time.
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

// ahead reports whether net/http reads into p in the background while the handler runs.
func ahead(p []byte) bool { return len(p) == 1 }

// willRead is called before a request is read. It fails once a read has failed: net/http takes that for the end of the
// connection, and cancels the contexts of all its requests.
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

// hasRead is called with the bytes that were read of a request. It fails when the header is rejected.
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
	if !c.own && c.deadline.Sub(now) < c.writeTimeout*3/4 { // fewer system calls than one for each write
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

// SetWriteDeadline implements net.Conn. The server's deadline applies until a handler sets one.
func (c *connection) SetWriteDeadline(t time.Time) error {
	if t.IsZero() && !c.own {
		return nil
	}
	c.own, c.deadline = !t.IsZero(), time.Time{}
	return c.Conn.SetWriteDeadline(t)
}

// CloseWrite lets net/http signal the end of the response before it closes the connection.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// NetConn returns the connection that the listener accepted.
func (c *connection) NetConn() net.Conn { return c.Conn }

// Close implements net.Conn.
func (c *connection) Close() error {
	c.place.Leave()
	return c.Conn.Close()
}

// readDeadline sets a connection's deadline of reads only when it moves to an earlier time. net/http moves it twice
// with each request, almost always to a later time; the deadline is then extended when it passes too early.
type readDeadline struct {
	mu          sync.Mutex
	wanted, has time.Time
}

func (d *readDeadline) set(conn net.Conn, t time.Time) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted = t
	if !d.has.IsZero() && (t.IsZero() || !t.Before(d.has)) {
		return nil
	}
	d.has = t
	return conn.SetReadDeadline(t)
}

// extend reports whether a failed read is to be repeated because its deadline has moved to a later time.
func (d *readDeadline) extend(conn net.Conn, failed error) bool {
	if !errors.Is(failed, os.ErrDeadlineExceeded) {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.wanted.IsZero() && !d.wanted.After(time.Now()) {
		return false
	}
	d.has = d.wanted
	return conn.SetReadDeadline(d.wanted) == nil
}

// interrupted reports whether net/http has ended a read by a deadline in the past, to read on later.
func (d *readDeadline) interrupted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.wanted.IsZero() && d.wanted.Unix() <= 1
}
