package httplimit

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse/internal/fair"
)

// HeadCost is the maximum memory of a long head in an account: its lines as net/http holds them, and a copy for
// forwarding.
const HeadCost = 32 << 10

// HeadAccount accounts for the head of one response. The zero value does not account.
type HeadAccount struct {
	memory  *fair.Pool
	key     string
	state   atomic.Uint32
	refused atomic.Pointer[HeadError]
}

// States of an account.
const (
	untouched uint32 = iota
	charged
	closed
)

// Open sets the memory and the key to charge. It is called before the request is sent.
func (a *HeadAccount) Open(memory *fair.Pool, key string) { a.memory, a.key = memory, key }

// take is called once per response, while its head is read.
func (a *HeadAccount) take() error {
	if a.memory == nil {
		return nil
	}
	if !a.memory.TryAcquire(a.key, HeadCost) {
		return ErrHeadShare
	}
	if !a.state.CompareAndSwap(untouched, charged) { // the request has ended, or was charged for an earlier response
		a.memory.Release(a.key, HeadCost)
	}
	return nil
}

// Refused returns why the response was rejected, or nil. The error of net/http may differ, as it drops errors after a
// complete line, and accepts an incomplete line as complete.
func (a *HeadAccount) Refused() error {
	if why := a.refused.Load(); why != nil {
		return *why
	}
	return nil
}

// Close releases the memory. It is called at the end of the response.
func (a *HeadAccount) Close() {
	if a.state.Swap(closed) == charged {
		a.memory.Release(a.key, HeadCost)
	}
}

// With returns a context that charges the response to the account.
func (a *HeadAccount) With(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: a.picked})
}

func (a *HeadAccount) picked(info httptrace.GotConnInfo) { a.Picked(info.Conn) }

// Picked is the GotConn hook for callers with their own httptrace.ClientTrace.
func (a *HeadAccount) Picked(by net.Conn) {
	if c, ok := by.(*conn); ok {
		c.next.Store(a)
	}
}

// conn is a connection of net/http, which carries one response at a time.
type conn struct {
	net.Conn

	next atomic.Pointer[HeadAccount] // of the request whose response comes next

	// Fields of the reader.
	account *HeadAccount
	head    Head  // of the current response
	err     error // why reading has ended
}

// NetConn returns the counted connection.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Read implements net.Conn. Its errors are permanent: a reader of lines drops an error after a complete line, and reads
// on.
func (c *conn) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.Conn.Read(p)
	if next := c.next.Swap(nil); next != nil {
		c.account, c.head = next, Head{}
	}
	if c.head.over {
		return n, err
	}
	fine, wrong := c.count(p[:n])
	if c.err = wrong; wrong == nil {
		return n, err
	}
	if why, ok := errors.AsType[HeadError](wrong); ok && c.account != nil {
		c.account.refused.Store(&why)
	}
	if fine > 0 {
		return fine, nil
	}
	return 0, wrong
}

// count returns how many bytes of a head may be read.
func (c *conn) count(p []byte) (int, error) {
	short := !c.head.long()
	fine, err := c.head.Read(p)
	if err == nil && short && c.head.long() && c.account != nil {
		if err = c.account.take(); err != nil {
			fine = 1 // so that the response has begun
		}
	}
	return fine, err
}

// DialFunc is the type of an http.Transport's DialContext.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// CountHeads wraps dial with connections that count the heads of responses.
func CountHeads(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		under, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: under}, nil
	}
}

// Meter measures one direction of one client: the bytes that it sends, or that it reads. One goroutine begins and ends
// waits; any may call Since.
type Meter struct {
	// Rate is the required number of bytes a second.
	Rate int64
	// Ahead limits the credit of a client that is ahead of its pace.
	Ahead time.Duration

	began  time.Time
	behind time.Duration // at the end of the last wait
	since  atomic.Int64
}

// Begin records that the server starts to wait for its client. It returns the time since which the client is behind:
// now, an earlier time for a client that has been too slow, or a later one for a client that is ahead.
func (m *Meter) Begin(now time.Time) (since time.Time) {
	m.began, since = now, now.Add(-m.behind)
	m.since.Store(since.UnixNano())
	return since
}

// End records that the client has moved the given number of bytes, which ends the wait.
func (m *Meter) End(now time.Time, bytes int) {
	m.since.Store(0)
	allowed := time.Duration(int64(bytes) * int64(time.Second) / m.Rate)
	m.behind = max(-m.Ahead, m.behind+now.Sub(m.began)-allowed)
}

// Reset forgets how slow the client was.
func (m *Meter) Reset() { m.behind = 0 }

// Since returns the time since which the client is behind, in nanoseconds of Unix time, or 0 while the server does not
// wait for it.
func (m *Meter) Since() int64 { return m.since.Load() }

const (
	// slowAfter is the time after which waiting for bytes counts, to allow for the network and the scheduler.
	slowAfter = 100 * time.Millisecond
	// unhurriedRate is the required rate, in bytes a second, while no other client waits for a place.
	unhurriedRate = 32 << 10
)

// Exchange measures a client that sends a request body and reads the response.
type Exchange struct {
	body  Meter
	write atomic.Int64 // when the write in progress began
}

// BeginRead marks the begin of a read of the body.
func (e *Exchange) BeginRead(now time.Time) {
	e.body.Rate = unhurriedRate
	e.body.Begin(now)
}

// EndRead marks its end, with the number of bytes read.
func (e *Exchange) EndRead(now time.Time, bytes int) { e.body.End(now, bytes) }

// BeginWrite marks the begin of a write to the client.
func (e *Exchange) BeginWrite(now time.Time) { e.write.Store(now.UnixNano()) }

// EndWrite marks its end.
func (e *Exchange) EndWrite() { e.write.Store(0) }

// Writes reports whether a write to the client is in progress.
func (e *Exchange) Writes() bool { return e.write.Load() != 0 }

// Reset forgets how slow the client was with its last body.
func (e *Exchange) Reset() { e.body.Reset() }

// WaitsSince returns the time since which the server has waited for the client, in nanoseconds of Unix time, or 0 for a
// client that keeps its pace.
func (e *Exchange) WaitsSince(now int64) int64 {
	since := int64(0)
	for _, begun := range [...]int64{e.body.Since(), e.write.Load()} {
		if begun != 0 && now-begun >= int64(slowAfter) && (since == 0 || begun < since) {
			since = begun
		}
	}
	return since
}
