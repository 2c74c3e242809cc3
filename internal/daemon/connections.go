package daemon

import (
	"cmp"
	"net"
	"net/http"
	"time"

	"github.com/rouse-run/rouse/internal/httplimit"
)

// defaultMaxConnections is how many a Server has that names no number.
const defaultMaxConnections = 1024

// Share bounds the connections of one key: an address, or the one who is asked.
type Share struct {
	// Of returns the key of a connection.
	Of func(net.Conn) httplimit.Key
	// Most is how many connections a key has; 0: no more than it leaves free.
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
