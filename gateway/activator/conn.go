package activator

import (
	"net"

	"github.com/rouse-run/rouse/internal/activation"
)

// conn is a connection to the port of a Function.
type conn struct {
	net.Conn
	port *port
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
