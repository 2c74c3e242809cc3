package httplimit

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"sync/atomic"

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
