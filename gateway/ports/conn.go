package ports

import (
	"net"
	"sync"

	"github.com/rouse-run/rouse/internal/activation"
)

// conn is a connection to the port of a Function.
type conn struct {
	net.Conn
	port *port
	once sync.Once
}

// count is nil when the Function has as many connections as it may have.
func (p *port) count(accepted net.Conn, share int) net.Conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns >= share {
		return nil
	}
	p.conns++
	return &conn{Conn: accepted, port: p}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.port.mu.Lock()
		c.port.conns--
		c.port.mu.Unlock()
	})
	return c.Conn.Close()
}

// CloseWrite lets the server tell a client to read its answer before the connection ends.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Owner is the Function at whose port a connection came.
type Owner struct{ port *port }

// Of finds the owner of a connection that a Ports has accepted; wrappers show what they wrap with NetConn.
func Of(c net.Conn) (Owner, bool) {
	for {
		switch found := c.(type) {
		case *conn:
			return Owner{found.port}, true
		case interface{ NetConn() net.Conn }:
			c = found.NetConn()
		default:
			return Owner{}, false
		}
	}
}

// Function is the listing by which the port was opened.
func (o Owner) Function() activation.Listing { return o.port.function }

// Gone reports whether the Function has the port no more.
func (o Owner) Gone() bool {
	select {
	case <-o.port.gone:
		return true
	default:
		return false
	}
}
