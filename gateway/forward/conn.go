package forward

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// maxIdle bounds the idle connections to one address.
const maxIdle = 64

// conn is a connection to a backend, for one request at a time. It is not read while it is idle.
type conn struct {
	net.Conn
	address string
	used    bool // for a request before
	raw     syscall.RawConn
	peek    func(fd uintptr) bool
	one     [1]byte
	silent  bool      // result of peek
	since   time.Time // when it became idle
}

func newConn(counted net.Conn, address string) *conn {
	c := &conn{Conn: counted, address: address}
	if under, ok := counted.(interface{ NetConn() net.Conn }); ok {
		counted = under.NetConn()
	}
	if socket, ok := counted.(syscall.Conn); ok {
		c.raw, _ = socket.SyscallConn() // without it the connection is used once
	}
	c.peek = func(fd uintptr) bool {
		_, err := syscall.Read(int(fd), c.one[:])
		c.silent = errors.Is(err, syscall.EAGAIN)
		return true
	}
	return c
}

// alive reports whether an idle connection is open, and the backend has sent nothing without a request.
func (c *conn) alive() bool { return c.raw != nil && c.raw.Read(c.peek) == nil && c.silent }

func (c *conn) interrupt() { _ = c.SetDeadline(time.Unix(1, 0)) }

// idle are the idle connections to an address. The most recently used is used first, so that superfluous ones expire.
type idle struct {
	mu     sync.Mutex
	conns  []*conn
	expiry *time.Timer
	gone   bool // and has no connections
}

// take returns an idle connection, nil if there is none. The backend may have closed it.
func (t *Transport) take(address string) *conn {
	found, ok := t.idle.Load(address)
	if !ok {
		return nil
	}
	for oldest := time.Now().Add(-IdleConnTimeout); ; {
		c := found.(*idle).pop() //nolint:forcetypeassert // there are no others
		if c == nil {
			return nil
		}
		if c.since.After(oldest) {
			return c
		}
		_ = c.Close()
	}
}

func (i *idle) pop() *conn {
	i.mu.Lock()
	defer i.mu.Unlock()
	last := len(i.conns) - 1
	if last < 0 {
		return nil
	}
	c := i.conns[last]
	i.conns[last] = nil
	i.conns = i.conns[:last]
	return c
}

// keep makes a connection idle.
func (t *Transport) keep(c *conn) {
	if c.raw == nil {
		_ = c.Close()
		return
	}
	c.used, c.since = true, time.Now()
	for {
		found, ok := t.idle.Load(c.address)
		if !ok {
			found, _ = t.idle.LoadOrStore(c.address, &idle{})
		}
		if t.add(found.(*idle), c) { //nolint:forcetypeassert // there are no others
			return
		}
	}
}

// add returns false when the idle connections of the address were forgotten meanwhile.
func (t *Transport) add(to *idle, c *conn) bool {
	to.mu.Lock()
	defer to.mu.Unlock()
	switch {
	case to.gone:
		return false
	case len(to.conns) >= maxIdle:
		_ = c.Close()
	default:
		to.conns = append(to.conns, c)
		if to.expiry == nil {
			to.expiry = time.AfterFunc(IdleConnTimeout, func() { t.expire(c.address, to) })
		}
	}
	return true
}

// expire closes what has been idle for long, and forgets an address without connections.
func (t *Transport) expire(address string, of *idle) {
	of.mu.Lock()
	defer of.mu.Unlock()
	expired, oldest := 0, time.Now().Add(-IdleConnTimeout)
	for expired < len(of.conns) && !of.conns[expired].since.After(oldest) {
		_ = of.conns[expired].Close()
		expired++
	}
	of.conns = append(of.conns[:0:0], of.conns[expired:]...)
	if of.gone = len(of.conns) == 0; of.gone {
		t.idle.CompareAndDelete(address, of)
		return
	}
	of.expiry.Reset(time.Until(of.conns[0].since.Add(IdleConnTimeout)))
}

// close closes all.
func (i *idle) close() {
	for c := i.pop(); c != nil; c = i.pop() {
		_ = c.Close()
	}
}

// answerBody is the body of a response. The connection is kept when it was read to its end.
type answerBody struct {
	io.ReadCloser
	transport *Transport
	conn      *conn
	reader    *bufio.Reader
	unwatch   func() bool
	keeps     bool
	over      bool
}

// arrived reports whether reading does not wait for the backend.
func (a *answerBody) arrived() bool { return !a.over && a.reader.Buffered() > 0 }

// Read implements io.Reader.
func (a *answerBody) Read(p []byte) (int, error) {
	if a.over {
		return 0, io.EOF
	}
	n, err := a.ReadCloser.Read(p)
	if err != nil {
		a.finish(errors.Is(err, io.EOF))
	}
	return n, err
}

// Close implements io.Closer.
func (a *answerBody) Close() error {
	a.finish(false)
	return nil
}

func (a *answerBody) finish(whole bool) {
	if a.over {
		return
	}
	a.over = true
	if a.unwatch() && whole && a.keeps && a.reader.Buffered() == 0 {
		a.transport.keep(a.conn)
	} else {
		_ = a.conn.Close()
	}
	a.transport.putReader(a.reader)
}

func (t *Transport) reader(c *conn) *bufio.Reader {
	if r, ok := t.readers.Get().(*bufio.Reader); ok {
		r.Reset(c)
		return r
	}
	return bufio.NewReader(c)
}

func (t *Transport) putReader(r *bufio.Reader) {
	if r != nil {
		r.Reset(nil)
		t.readers.Put(r)
	}
}
