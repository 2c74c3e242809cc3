package entrance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/httplimit"
)

// acceptPause is the pause after a failed accept, as when the process has no file descriptor left.
const acceptPause = 50 * time.Millisecond

// listener combines the HTTP and the TLS listener, so that they share their bounds.
type listener struct {
	proxies  proxies
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
	accepts  sync.WaitGroup
	under    []net.Listener
}

// listen opens both, or none.
func (e *Entrance) listen(ctx context.Context) (*listener, error) {
	l := &listener{proxies: e.proxies, accepted: make(chan net.Conn), closed: make(chan struct{})}
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
		identified := l.identify(accepted, secure)
		if identified == nil {
			_ = accepted.Close()
			continue
		}
		select {
		case l.accepted <- identified:
		case <-l.closed:
			_ = identified.Close()
			return
		}
	}
}

// identify wraps a connection with its client.
func (l *listener) identify(accepted net.Conn, secure bool) net.Conn {
	address, err := netip.ParseAddrPort(accepted.RemoteAddr().String())
	if err != nil {
		return nil
	}
	return &conn{Conn: accepted, key: l.proxies.keyOf(address.Addr()), secure: secure}
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

// Close implements net.Listener. Connections stay open.
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

// Addr implements net.Listener. It returns the address of the first listener.
func (l *listener) Addr() net.Addr { return l.under[0].Addr() }

// conn is a connection of a client.
type conn struct {
	net.Conn
	key    httplimit.Key
	secure bool

	mu      sync.Mutex
	streams map[*request]struct{} // of HTTP/2
}

func (c *conn) add(stream *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.streams == nil {
		c.streams = map[*request]struct{}{}
	}
	c.streams[stream] = struct{}{}
}

func (c *conn) remove(stream *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.streams, stream)
}

// WaitsSince returns since when all streams wait for their client, or 0 when one of them does not.
func (c *conn) WaitsSince(now int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := int64(0)
	for stream := range c.streams {
		since := stream.WaitsSince(now)
		if since == 0 {
			return 0
		}
		last = max(last, since)
	}
	return last
}

// CloseWrite lets the client read the response before the connection closes.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// connOf returns the conn that a listener has accepted; wrappers expose it by NetConn.
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

// proxies are the networks of trusted proxies.
type proxies []netip.Prefix

func (p proxies) trust(address netip.Addr) bool {
	address = address.WithZone("").Unmap()
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(address) })
}

// keyOf returns the key that a connection counts for. A trusted proxy has none, because it serves many clients.
func (p proxies) keyOf(address netip.Addr) httplimit.Key {
	if p.trust(address) {
		return httplimit.Key{Name: address.WithZone("").Unmap().String(), Unshared: true}
	}
	return httplimit.KeyOf(address)
}

// clientOf returns the key of a trusted proxy's request: the last address that is not a trusted proxy's. A request
// without one has no key.
func (p proxies) clientOf(header http.Header, proxy httplimit.Key) httplimit.Key {
	for _, line := range slices.Backward(header["X-Forwarded-For"]) {
		for rest, last := line, ""; rest != ""; {
			if comma := strings.LastIndexByte(rest, ','); comma >= 0 {
				rest, last = rest[:comma], rest[comma+1:]
			} else {
				rest, last = "", rest
			}
			address, err := netip.ParseAddr(strings.TrimSpace(last))
			if err != nil {
				return proxy
			}
			if !p.trust(address) {
				return httplimit.KeyOf(address)
			}
		}
	}
	return proxy
}

// request is a client's request, which may be evicted.
type request struct {
	httplimit.Exchange
	httplimit.Place

	caller     forward.Caller
	from       *conn
	http1      bool
	controller *http.ResponseController
	evicted    atomic.Bool

	mu    sync.Mutex
	ended bool
	until time.Time // when more of the body has to have arrived
}

var past = time.Unix(1, 0)

// Evict implements httplimit.Client. Reading the body and writing the response fail.
func (r *request) Evict() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended || r.evicted.Swap(true) {
		return
	}
	switch {
	case !r.Writes():
		_ = r.controller.SetReadDeadline(past)
	case r.http1:
		_ = r.from.Close()
	default:
		_ = r.controller.SetWriteDeadline(past)
	}
}

// end is called when the handler has returned.
func (r *request) end() {
	r.mu.Lock()
	r.ended = true
	r.mu.Unlock()
	if !r.http1 {
		r.from.remove(r)
	}
	r.Leave()
}

// setReadDeadline sets when more of the body has to have arrived; the zero time: never.
func (r *request) setReadDeadline(t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.evicted.Load() {
		return os.ErrDeadlineExceeded
	}
	r.until = t
	return r.controller.SetReadDeadline(t)
}

// extend moves the deadline at intervals rather than at each read, but shortens it at once.
func (r *request) extend(t time.Time, step time.Duration) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.evicted.Load():
		return os.ErrDeadlineExceeded
	case !r.until.IsZero() && !t.Before(r.until) && t.Sub(r.until) <= step:
		return nil
	}
	r.until = t
	return r.controller.SetReadDeadline(t)
}
