package daemon

import (
	"cmp"
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// defaultMaxConnections is how many a Server has that names no number.
	defaultMaxConnections = 1024
	// evictedShare is which part of all connections is closed at a time where there are too many, so that the search for
	// the oldest is not repeated for each further one.
	evictedShare = 64
)

// connections bounds how many clients a server has. A further one replaces those that the server has waited for
// longest, of the address that has most: a client that sends its request at once, and reads its answer, is served beside
// any number of others.
type connections struct {
	net.Listener
	limit        int
	writeTimeout time.Duration

	mu   sync.Mutex
	open map[*connection]struct{}
}

func newConnections(listener net.Listener, limit int, writeTimeout time.Duration) *connections {
	return &connections{
		Listener: listener, limit: cmp.Or(limit, defaultMaxConnections), writeTimeout: cmp.Or(writeTimeout, defaultWriteTimeout),
		open: map[*connection]struct{}{},
	}
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
	l.mu.Lock()
	full := len(l.open) >= l.limit
	var evicted []*connection
	if full {
		evicted = longestWaiting(l.open, max(1, l.limit/evictedShare))
		for _, c := range evicted {
			delete(l.open, c)
		}
	}
	var accepted *connection
	if !full || len(evicted) > 0 {
		accepted = newConnection(conn, l)
		l.open[accepted] = struct{}{}
	}
	l.mu.Unlock()
	for _, c := range evicted {
		_ = c.Close()
	}
	if accepted == nil {
		return nil
	}
	return accepted
}

func (l *connections) remove(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
}

// longestWaiting are up to n connections on whose client the server waits, of the address that has most of these.
func longestWaiting(open map[*connection]struct{}, n int) []*connection {
	byAddress := map[string][]*connection{}
	var most []*connection
	for c := range open {
		if c.waits.Load() == 0 {
			continue
		}
		byAddress[c.address] = append(byAddress[c.address], c)
		if len(byAddress[c.address]) > len(most) {
			most = byAddress[c.address]
		}
	}
	since := make(map[*connection]int64, len(most)) // as it is now
	for _, c := range most {
		since[c] = c.since.Load()
	}
	slices.SortFunc(most, func(a, b *connection) int { return cmp.Compare(since[a], since[b]) })
	return most[:min(n, len(most))]
}

// follow receives the state of a connection from the server.
func (l *connections) follow(conn net.Conn, state http.ConnState) {
	_, http2 := conn.(*tls.Conn) // which has no single request to wait for
	c := connectionOf(conn)
	if c == nil {
		return
	}
	switch state {
	case http.StateActive:
		c.header.end()
		if http2 {
			c.waits.And(^toSend)
		}
	case http.StateIdle:
		c.since.Store(time.Now().UnixNano())
		c.header.begin()
		if http2 {
			c.waits.Or(toSend)
		}
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
