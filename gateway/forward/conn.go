package forward

import (
	"bufio"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/rouse-run/rouse/internal/endpoint"
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
	silent  bool // result of peek
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

// take returns an idle connection, nil if there is none. The backend may have closed it.
func (t *Transport) take(address string) *conn {
	found, ok := t.idle.Load(address)
	if !ok {
		return nil
	}
	c, _ := found.(*endpoint.Idle[*conn]).Take() //nolint:forcetypeassert // there are no others
	return c
}

// keep makes a connection idle.
func (t *Transport) keep(c *conn) {
	if c.raw == nil {
		_ = c.Close()
		return
	}
	c.used = true
	for {
		found, ok := t.idle.Load(c.address)
		if !ok {
			found, _ = t.idle.LoadOrStore(c.address, t.newIdle(c.address))
		}
		if found.(*endpoint.Idle[*conn]).Keep(c) { //nolint:forcetypeassert // there are no others
			return
		}
	}
}

// newIdle returns the idle connections to an address, which is forgotten when it has none.
func (t *Transport) newIdle(address string) (idle *endpoint.Idle[*conn]) {
	idle = endpoint.NewIdle[*conn](maxIdle, func() { t.idle.CompareAndDelete(address, idle) })
	return idle
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
