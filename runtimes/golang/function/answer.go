package function

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// answer is the ResponseWriter of a handler. After its timeout no more of its output reaches the connection.
type answer struct {
	to     http.ResponseWriter
	header http.Header

	mu      sync.Mutex
	status  int // 0: not written
	size    int64
	err     error
	expired bool
	broken  bool
	refused bool // the server has responded in place of the handler, which is still writing

	upgraded *upgradedConnections
	conn     *upgradedConn // nil while the server owns it
}

var (
	_ http.Flusher  = (*answer)(nil)
	_ http.Hijacker = (*answer)(nil)
)

func (a *answer) Header() http.Header { return a.header }

func (a *answer) WriteHeader(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin(status)
}

// begin writes the status and the headers, once.
func (a *answer) begin(status int) {
	if a.expired || a.conn != nil || a.status != 0 {
		return
	}
	if status < 100 || status > 999 { // otherwise net/http panics
		fmt.Fprintf(os.Stderr, "the handler answered with the status %d: it has to be one from 100 to 999\n", status)
		a.err = fmt.Errorf("the handler answered with the status %d", status)
		a.replace(http.StatusInternalServerError, internalError)
		a.refused = true
		return
	}
	header := a.to.Header()
	maps.Copy(header, a.header)
	if status >= 200 {
		a.status = status
	}
	a.to.WriteHeader(status)
}

func (a *answer) Write(text []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.expired {
		return 0, http.ErrHandlerTimeout
	}
	if a.conn != nil {
		return 0, http.ErrHijacked
	}
	a.begin(http.StatusOK)
	if a.refused {
		return len(text), nil
	}
	n, err := a.to.Write(text)
	a.size += int64(n)
	return n, err
}

func (a *answer) Flush() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.expired || a.conn != nil {
		return
	}
	a.begin(http.StatusOK)
	if flusher, ok := a.to.(http.Flusher); ok {
		flusher.Flush()
	}
}

func (a *answer) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

// end completes the response of a handler that has returned.
func (a *answer) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.begin(http.StatusOK)
}

func (a *answer) abort() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken = !a.expired
	if a.conn != nil {
		_ = a.conn.Close() // not closed elsewhere
	}
}

// refuse responds in place of a handler that has not begun to. It returns false when the handler has.
func (a *answer) refuse(status int, text string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.status != 0 {
		return false
	}
	a.replace(status, text)
	return true
}

// replace writes a response of the server's own. Nothing has been written yet.
func (a *answer) replace(status int, text string) {
	a.header = http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
	a.begin(status)
	n, _ := a.to.Write([]byte(text)) // the client may have disconnected
	a.size = int64(n)
}

// expire responds in place of a handler that exceeds its timeout. It returns false when the handler has taken over the
// connection, which has no timeout.
func (a *answer) expire() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.conn != nil {
		return false
	}
	a.expired = true
	if a.status != 0 {
		a.broken = true
		return true
	}
	a.status = http.StatusRequestTimeout
	header := a.to.Header()
	header.Set("Connection", "close")
	header.Set("Content-Type", "text/plain; charset=utf-8")
	a.to.WriteHeader(http.StatusRequestTimeout)
	_, _ = a.to.Write([]byte("Timeout while processing the function")) // the client may have disconnected
	return true
}

// contextOf returns the context of a call. A call that upgrades the protocol may last as long as both sides want, and
// has no deadline.
func contextOf(r *http.Request) (context.Context, context.CancelFunc) {
	if r.Header.Get("Upgrade") != "" && strings.Contains(strings.ToLower(r.Header.Get("Connection")), "upgrade") {
		return context.WithCancel(r.Context())
	}
	return context.WithTimeout(r.Context(), settings.timeout)
}

// Hijack hands over the connection to the handler, for a WebSocket or another protocol.
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

// awaitClose blocks until the connection that the handler took over is closed, by any of its goroutines.
func (a *answer) awaitClose() {
	a.mu.Lock()
	conn := a.conn
	a.mu.Unlock()
	if conn != nil {
		<-conn.closed
	}
}

// upgradedConnections are the connections that handlers have taken over.
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

// end waits until all are closed, and closes the remaining ones after the limit.
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

// upgradedConn signals when it is closed.
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
