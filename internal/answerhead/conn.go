package answerhead

import (
	"context"
	"errors"
	"net"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/rouse-run/rouse/internal/fair"
)

// Cost is what a long head takes at most of an account's memory: its lines as net/http has them, and once more as they are forwarded.
const Cost = 32 << 10

// Account is that of one request. The zero value takes of nothing.
type Account struct {
	memory  *fair.Pool
	key     string
	state   atomic.Uint32
	refused atomic.Pointer[Error]
}

// States of an account.
const (
	untouched uint32 = iota
	charged
	closed
)

// Open has the account take of memory by key. It is called before the request is sent.
func (a *Account) Open(memory *fair.Pool, key string) { a.memory, a.key = memory, key }

// take is called once for an answer, while its head is read.
func (a *Account) take() error {
	if a.memory == nil {
		return nil
	}
	if !a.memory.TryAcquire(a.key, Cost) {
		return ErrShare
	}
	if !a.state.CompareAndSwap(untouched, charged) { // the request is over, or was charged for an answer before
		a.memory.Release(a.key, Cost)
	}
	return nil
}

// Refused is why the answer was refused, or nil. What net/http says of it may be something else, as it drops errors behind a whole
// line, and takes the rest of a line for one.
func (a *Account) Refused() error {
	if why := a.refused.Load(); why != nil {
		return *why
	}
	return nil
}

// Close gives back what was taken. It is called when the answer is over.
func (a *Account) Close() {
	if a.state.Swap(closed) == charged {
		a.memory.Release(a.key, Cost)
	}
}

// With has the connection that is picked for a request count the answer by the account.
func (a *Account) With(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: a.picked})
}

func (a *Account) picked(info httptrace.GotConnInfo) { a.Picked(info.Conn) }

// Picked is for those who trace their requests themselves.
func (a *Account) Picked(by net.Conn) {
	if c, ok := by.(*conn); ok {
		c.next.Store(a)
	}
}

// conn is a connection of net/http's, which answers one request at a time.
type conn struct {
	net.Conn

	next atomic.Pointer[Account] // of the request whose answer comes

	// Of the reader.
	account *Account
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
	short := !c.head.long()
	fine, wrong := c.head.Read(p[:n])
	if wrong == nil && short && c.head.long() && c.account != nil {
		if wrong = c.account.take(); wrong != nil {
			fine = 1 // so that the answer has begun, and no more
		}
	}
	if c.err = wrong; wrong == nil {
		return n, err
	}
	if why, ok := errors.AsType[Error](wrong); ok && c.account != nil {
		c.account.refused.Store(&why)
	}
	if fine > 0 {
		return fine, nil
	}
	return 0, wrong
}

// Dial connects.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Count has connections count what they read of answers.
func Count(dial Dial) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		under, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: under}, nil
	}
}
