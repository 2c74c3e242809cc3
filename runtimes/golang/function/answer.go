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

// answer is what a handler writes to. Once its time is over, nothing of it reaches the connection any more.
type answer struct {
	to     http.ResponseWriter
	header http.Header

	mu      sync.Mutex
	status  int // 0: nothing is written
	size    int64
	err     error
	expired bool
	broken  bool
	refused bool // the server has answered in the handler's place, which is still writing

	upgraded *upgradedConnections
	conn     *upgradedConn // nil: it is the server's
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
	if status < 100 || status > 999 { // net/http panics
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

// end is the end of a handler that has returned.
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
		_ = a.conn.Close() // nobody else does
	}
}

// refuse answers for a handler that has not begun to. It is false when that has.
func (a *answer) refuse(status int, text string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.status != 0 {
		return false
	}
	a.replace(status, text)
	return true
}

// replace writes an answer of the server's own. Nothing is written yet.
func (a *answer) replace(status int, text string) {
	a.header = http.Header{"Content-Type": {"text/plain; charset=utf-8"}}
	a.begin(status)
	n, _ := a.to.Write([]byte(text)) // who has asked may be gone
	a.size = int64(n)
}

// expire answers for a handler that takes too long. It is false when the handler has the connection and with it all the time.
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
	_, _ = a.to.Write([]byte("Timeout while processing the function")) // who has asked may be gone
	return true
}

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
