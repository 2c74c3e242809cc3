package function

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// contextOf is that of a call. One that asks for another protocol may last as long as both sides want, and has no deadline.
func contextOf(r *http.Request) (context.Context, context.CancelFunc) {
	if r.Header.Get("Upgrade") != "" && strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade") {
		return context.WithCancel(r.Context())
	}
	return context.WithTimeout(r.Context(), settings.timeout)
}

// Hijack gives the connection to the handler, for a WebSocket or another protocol.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.expired:
		return nil, nil, http.ErrHandlerTimeout
	case a.conn != nil:
		return nil, nil, http.ErrHijacked
	case a.status != 0:
		return nil, nil, errors.New("the answer has begun already")
	}
	conn, buffered, err := http.NewResponseController(a.to).Hijack()
	if err != nil {
		return nil, nil, err
	}
	a.status = http.StatusSwitchingProtocols
	a.conn = a.upgraded.add(conn)
	return a.conn, buffered, nil
}

// awaitClose has the call last as long as the connection that the handler took, whichever goroutine of its closes that.
func (a *answer) awaitClose() {
	a.mu.Lock()
	conn := a.conn
	a.mu.Unlock()
	if conn != nil {
		<-conn.closed
	}
}

// upgradedConnections are those that handlers have taken.
type upgradedConnections struct {
	mu   sync.Mutex
	open map[*upgradedConn]struct{}
}

func (u *upgradedConnections) add(conn net.Conn) *upgradedConn {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.open == nil {
		u.open = map[*upgradedConn]struct{}{}
	}
	taken := &upgradedConn{Conn: conn, all: u, closed: make(chan struct{})}
	u.open[taken] = struct{}{}
	return taken
}

// end waits until all are closed, and closes what is left after the limit.
func (u *upgradedConnections) end(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for _, conn := range u.list() {
		select {
		case <-conn.closed:
			continue
		case <-timer.C:
		}
		for _, late := range u.list() {
			_ = late.Close()
		}
		return
	}
}

func (u *upgradedConnections) list() []*upgradedConn {
	u.mu.Lock()
	defer u.mu.Unlock()
	var open []*upgradedConn
	for conn := range u.open {
		open = append(open, conn)
	}
	return open
}

// upgradedConn tells when it is closed.
type upgradedConn struct {
	net.Conn

	all    *upgradedConnections
	once   sync.Once
	closed chan struct{}
}

func (c *upgradedConn) Close() error {
	c.once.Do(func() {
		c.all.mu.Lock()
		delete(c.all.open, c)
		c.all.mu.Unlock()
		close(c.closed)
	})
	return c.Conn.Close()
}
