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

// defaultMaxConnections is the limit of a Server that sets none.
const defaultMaxConnections = 1024

// Share bounds the connections of one key: an address, or the one who is asked.
type Share struct {
	// Of returns the key of a connection.
	Of func(net.Conn) httplimit.Key
	// Most is the number of connections that a key has; 0: no more than it leaves free.
	Most int
}

// connections bounds how many clients a server has, and how many of these have a key in common. A further one replaces those that the
// server has waited for longest: a client that sends its request at once, and reads its answer, is served beside any number of others.
type connections struct {
	net.Listener
	places       *httplimit.Places
	shares       []Share
	writeTimeout time.Duration
	full         func(evicted int, refused bool) // called when there were too many
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

// addressOf is the address of a client without its port.
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
		_ = conn.Close() // all others are being answered
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

// follow receives the state of a connection from the server.
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
	case http.StateNew, http.StateHijacked, http.StateClosed: // it is counted from Accept to Close
	}
}

// connectionOf is the one that carries what the server has accepted.
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

// NetConn returns the connection that the listener accepted.
func (c *connection) NetConn() net.Conn { return c.Conn }

// Close implements net.Conn.
func (c *connection) Close() error {
	c.place.Leave()
	return c.Conn.Close()
}

// readDeadline sets a connection's deadline of reads only when it comes earlier. net/http moves it twice with each request, almost
// always to a later time; one that was passed too early is moved then.
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

// extend reports whether a read that failed is to go on, because its deadline is later.
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

// interrupted reports whether net/http has ended a read by a deadline of long ago, to read on later.
func (d *readDeadline) interrupted() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.wanted.IsZero() && d.wanted.Unix() <= 1
}
