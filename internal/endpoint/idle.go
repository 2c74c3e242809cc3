package endpoint

import (
	"io"
	"slices"
	"sync"
	"time"
)

// IdleTimeout is how long a connection may be idle: shorter than the idle timeout of servers, such as five seconds in Node.js, so
// that no request is sent on a connection that its server is closing.
const IdleTimeout = 4 * time.Second

// Idle holds the idle connections to one address. The most recently used is taken first, so that superfluous ones expire.
type Idle[C io.Closer] struct {
	most   int
	retire func()

	mu      sync.Mutex
	idle    []idleConn[C] // the one that is idle longest first
	expiry  *time.Timer
	armed   bool
	retired bool
}

type idleConn[C io.Closer] struct {
	conn  C
	since time.Time
}

// NewIdle returns an Idle of at most so many connections. retire may be nil. Otherwise it is called once the last connection has
// expired, and no connection is kept after that; it must not use the Idle.
func NewIdle[C io.Closer](most int, retire func()) *Idle[C] {
	return &Idle[C]{most: most, retire: retire}
}

// Take removes and returns a connection, or returns false. The server may have closed it.
func (i *Idle[C]) Take() (conn C, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	last := len(i.idle) - 1
	if last < 0 {
		return conn, false
	}
	conn = i.idle[last].conn
	i.idle[last] = idleConn[C]{}
	i.idle = i.idle[:last]
	return conn, true
}

// Keep makes a connection idle, or closes it when there are enough. It returns false, and does neither, when the Idle has retired.
func (i *Idle[C]) Keep(conn C) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.retired:
		return false
	case len(i.idle) >= i.most:
		_ = conn.Close()
	default:
		i.idle = append(i.idle, idleConn[C]{conn, time.Now()})
		i.arm()
	}
	return true
}

// Close closes the idle connections.
func (i *Idle[C]) Close() {
	for conn, ok := i.Take(); ok; conn, ok = i.Take() {
		_ = conn.Close()
	}
}

// arm sets the timer for the connection that is idle longest. The timer fires once even if that one was taken meanwhile, which costs
// less than a timer for each use. The lock is held.
func (i *Idle[C]) arm() {
	if i.armed {
		return
	}
	i.armed = true
	wait := time.Until(i.idle[0].since.Add(IdleTimeout))
	if i.expiry == nil {
		i.expiry = time.AfterFunc(wait, i.expire)
		return
	}
	i.expiry.Reset(wait)
}

func (i *Idle[C]) expire() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.armed = false
	expired, now := 0, time.Now()
	for expired < len(i.idle) && now.Sub(i.idle[expired].since) >= IdleTimeout {
		_ = i.idle[expired].conn.Close()
		expired++
	}
	i.idle = slices.Delete(i.idle, 0, expired)
	switch {
	case len(i.idle) > 0:
		i.arm()
	case i.retire != nil:
		i.retired = true
		i.retire()
	}
}
