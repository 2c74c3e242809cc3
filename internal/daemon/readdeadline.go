package daemon

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

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
