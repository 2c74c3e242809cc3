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

// HeadCost is what a long head takes at most of an account's memory: its lines as net/http has them, and once more as they are forwarded.
const HeadCost = 32 << 10

// HeadAccount is that of one request. The zero value takes of nothing.
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

// Open has the account take of memory by key. It is called before the request is sent.
func (a *HeadAccount) Open(memory *fair.Pool, key string) { a.memory, a.key = memory, key }

// take is called once for an answer, while its head is read.
func (a *HeadAccount) take() error {
	if a.memory == nil {
		return nil
	}
	if !a.memory.TryAcquire(a.key, HeadCost) {
		return ErrHeadShare
	}
	if !a.state.CompareAndSwap(untouched, charged) { // the request is over, or was charged for an answer before
		a.memory.Release(a.key, HeadCost)
	}
	return nil
}

// Refused is why the answer was refused, or nil. What net/http says of it may be something else, as it drops errors behind a whole
// line, and takes the rest of a line for one.
func (a *HeadAccount) Refused() error {
	if why := a.refused.Load(); why != nil {
		return *why
	}
	return nil
}

// Close gives back what was taken. It is called when the answer is over.
func (a *HeadAccount) Close() {
	if a.state.Swap(closed) == charged {
		a.memory.Release(a.key, HeadCost)
	}
}

// With has the connection that is picked for a request count the answer by the account.
func (a *HeadAccount) With(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: a.picked})
}

func (a *HeadAccount) picked(info httptrace.GotConnInfo) { a.Picked(info.Conn) }

// Picked is for those who trace their requests themselves.
func (a *HeadAccount) Picked(by net.Conn) {
	if c, ok := by.(*conn); ok {
		c.next.Store(a)
	}
}

// conn is a connection of net/http's, which answers one request at a time.
type conn struct {
	net.Conn

	next atomic.Pointer[HeadAccount] // of the request whose answer comes

	// Of the reader.
	account *HeadAccount
	head    Head  // of the answer that is read
	err     error // why no more is read
}

// NetConn returns the connection that is counted.
func (c *conn) NetConn() net.Conn { return c.Conn }

// Read implements net.Conn. It fails for good: a reader of lines drops an error behind a whole line, and reads on.
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

// count returns how much of a head may be read.
func (c *conn) count(p []byte) (int, error) {
	short := !c.head.long()
	fine, err := c.head.Read(p)
	if err == nil && short && c.head.long() && c.account != nil {
		if err = c.account.take(); err != nil {
			fine = 1 // so that the answer has begun, and no more
		}
	}
	return fine, err
}

// DialFunc connects.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// CountHeads has connections count what they read of answers.
func CountHeads(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		under, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: under}, nil
	}
}

// Meter measures one direction of one client: what it sends, or what it reads. One goroutine begins and ends waits; any may call Since.
type Meter struct {
	// Rate is the number of bytes a second that is fast enough.
	Rate int64
	// Ahead limits how far bytes may put a client ahead of its pace, for which it may stop later.
	Ahead time.Duration

	began  time.Time
	behind time.Duration // when the last wait ended
	since  atomic.Int64
}

// Begin notes that the server waits for its client from now on. It returns since when the client is behind: now, earlier for one that
// has been too slow, and later for one that is ahead.
func (m *Meter) Begin(now time.Time) (since time.Time) {
	m.began, since = now, now.Add(-m.behind)
	m.since.Store(since.UnixNano())
	return since
}

// End notes that the client has moved so many bytes, and is not waited for.
func (m *Meter) End(now time.Time, bytes int) {
	m.since.Store(0)
	allowed := time.Duration(int64(bytes) * int64(time.Second) / m.Rate)
	m.behind = max(-m.Ahead, m.behind+now.Sub(m.began)-allowed)
}

// Reset forgets how slow the client was.
func (m *Meter) Reset() { m.behind = 0 }

// Since returns since when the client is behind, in nanoseconds of Unix time, or 0 while it is not waited for.
func (m *Meter) Since() int64 { return m.since.Load() }

const (
	// slowAfter is the time after which waiting for bytes counts: less than that the network and the scheduler take.
	slowAfter = 100 * time.Millisecond
	// unhurriedRate is the rate, in bytes a second, of a client that no other client waits for.
	unhurriedRate = 32 << 10
)

// Exchange measures a client that sends a request's body and reads its answer.
type Exchange struct {
	body  Meter
	write atomic.Int64 // when the write began that has not ended
}

// BeginRead and EndRead enclose a read of the body.
func (e *Exchange) BeginRead(now time.Time) {
	e.body.Rate = unhurriedRate
	e.body.Begin(now)
}

// EndRead is called with the number of bytes that were read.
func (e *Exchange) EndRead(now time.Time, bytes int) { e.body.End(now, bytes) }

// BeginWrite and EndWrite enclose a write to the client.
func (e *Exchange) BeginWrite(now time.Time) { e.write.Store(now.UnixNano()) }

// EndWrite is called when what was written has been taken.
func (e *Exchange) EndWrite() { e.write.Store(0) }

// Writes reports whether something is being written to the client.
func (e *Exchange) Writes() bool { return e.write.Load() != 0 }

// Reset forgets how slow the client was with its last body.
func (e *Exchange) Reset() { e.body.Reset() }

// WaitsSince returns since when the server has waited for the client, in nanoseconds of Unix time, or 0 for one that keeps its pace.
func (e *Exchange) WaitsSince(now int64) int64 {
	since := int64(0)
	for _, begun := range [...]int64{e.body.Since(), e.write.Load()} {
		if begun != 0 && now-begun >= int64(slowAfter) && (since == 0 || begun < since) {
			since = begun
		}
	}
	return since
}
