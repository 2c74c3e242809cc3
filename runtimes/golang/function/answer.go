package function

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"sync"
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
