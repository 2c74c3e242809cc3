package entrance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"
)

// acceptPause parts two tries after a listener could not accept, as when the process has no file descriptor left.
const acceptPause = 50 * time.Millisecond

// listener is one over HTTP and TLS, so that both have their bounds together.
type listener struct {
	clients  *clients
	metrics  *metrics
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
	accepts  sync.WaitGroup
	under    []net.Listener
}

// listen opens both, or none.
func (e *Entrance) listen(ctx context.Context) (*listener, error) {
	l := &listener{clients: e.clients, metrics: e.metrics, accepted: make(chan net.Conn), closed: make(chan struct{})}
	type opened struct {
		net.Listener
		secure bool
	}
	var all []opened
	for _, each := range []struct {
		under   net.Listener
		address string
		secure  bool
	}{{e.deps.HTTP, e.options.HTTPAddress, false}, {nil, e.options.TLSAddress, true}} {
		under := each.under
		if under == nil && each.address == "" {
			continue
		}
		if under == nil {
			var err error
			if under, err = new(net.ListenConfig).Listen(ctx, "tcp", each.address); err != nil {
				return nil, errors.Join(fmt.Errorf("entrance: listen on %s: %w", each.address, err), l.Close())
			}
		}
		l.under = append(l.under, under)
		all = append(all, opened{under, each.secure})
	}
	for _, each := range all {
		l.accepts.Go(func() { l.accept(each.Listener, each.secure) })
	}
	return l, nil
}

func (l *listener) accept(from net.Listener, secure bool) {
	for {
		accepted, err := from.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select {
			case <-l.closed:
				return
			case <-time.After(acceptPause):
			}
			continue
		}
		counted := l.count(accepted, secure)
		if counted == nil {
			l.metrics.refused.WithLabelValues(refusedConnection).Inc()
			_ = accepted.Close()
			continue
		}
		select {
		case l.accepted <- counted:
		case <-l.closed:
			_ = counted.Close()
			return
		}
	}
}

func (l *listener) count(accepted net.Conn, secure bool) net.Conn {
	address, err := netip.ParseAddrPort(accepted.RemoteAddr().String())
	if err != nil {
		return nil
	}
	client := l.clients.connect(address.Addr())
	if client == nil {
		return nil
	}
	return &conn{Conn: accepted, of: client, secure: secure, close: func() { l.clients.disconnect(client) }}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case accepted := <-l.accepted:
		return accepted, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. Connections stay.
func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		for _, under := range l.under {
			_ = under.Close()
		}
		l.accepts.Wait()
	})
	return nil
}

// Addr implements net.Listener: it is that of the first.
func (l *listener) Addr() net.Addr { return l.under[0].Addr() }

// conn is a connection of a client.
type conn struct {
	net.Conn
	of     *client
	secure bool
	once   sync.Once
	close  func()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.once.Do(c.close)
	return c.Conn.Close()
}

// CloseWrite lets the server tell a client to read its answer before the connection ends.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// connOf finds what a listener has accepted; wrappers show what they wrap with NetConn.
func connOf(c net.Conn) *conn {
	for {
		switch found := c.(type) {
		case *conn:
			return found
		case interface{ NetConn() net.Conn }:
			c = found.NetConn()
		default:
			return nil
		}
	}
}
