package daemon

import (
	"cmp"
	"iter"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/rouse-run/rouse/internal/pace"
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
		for _, slow := range pace.Slowest(l.slow(), max(1, l.limit/evictedShare)) {
			delete(l.open, slow.Client)
			evicted = append(evicted, slow.Client)
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

// slow are the connections on whose client the server waits.
func (l *connections) slow() iter.Seq[pace.Slow[*connection]] {
	now := time.Now().UnixNano()
	return func(yield func(pace.Slow[*connection]) bool) {
		for c := range l.open {
			since := c.waitsSince(now)
			if since != 0 && !yield(pace.Slow[*connection]{Client: c, Holder: c.address, Since: since}) {
				return
			}
		}
	}
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
