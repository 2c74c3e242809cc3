package activator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/internal/activation"
)

// acceptPause is the pause after a failed accept, as when the process has no file descriptor left.
const acceptPause = 50 * time.Millisecond

// Ports is a net.Listener on the activator ports of all Functions.
type Ports struct {
	host string
	log  logr.Logger

	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
	accepts  sync.WaitGroup

	mu     sync.Mutex
	open   map[int32]*port
	failed map[int32]string // why a port is not open
	known  bool
}

// port is the listener of one Function.
type port struct {
	function activation.Listing
	listener net.Listener
	gone     chan struct{}
	once     sync.Once
}

// NewPorts returns Ports without listeners.
func NewPorts(host string, log logr.Logger) *Ports {
	return &Ports{
		host: host, log: log, accepted: make(chan net.Conn), closed: make(chan struct{}),
		open: map[int32]*port{}, failed: map[int32]string{},
	}
}

// Set opens new ports and closes removed ones. A port that moves to another Function is reopened. A Function may have a
// listing with the same port for each address family.
func (p *Ports) Set(listings []activation.Listing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.closed:
		return
	default:
	}
	wanted := make(map[int32]activation.Listing, len(listings))
	for _, listing := range listings {
		if _, taken := wanted[listing.Port]; !taken {
			wanted[listing.Port] = listing
		}
	}
	for number, opened := range p.open {
		if wanted[number].UID != opened.function.UID || wanted[number].Function != opened.function.Function {
			opened.close()
			delete(p.open, number)
		}
	}
	for number := range p.failed {
		if _, ok := wanted[number]; !ok {
			delete(p.failed, number)
		}
	}
	for number, listing := range wanted {
		if p.open[number] == nil {
			p.listen(number, listing)
		}
	}
	p.known = true
}

// The caller holds the lock.
func (p *Ports) listen(number int32, listing activation.Listing) {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(p.host, strconv.Itoa(int(number))))
	if err != nil {
		if before := p.failed[number]; before != err.Error() {
			p.log.Error(err, "cannot open an activator port", "port", number, "namespace", listing.Function.Namespace, "function", listing.Function.Name)
		}
		p.failed[number] = err.Error()
		return
	}
	delete(p.failed, number)
	opened := &port{function: listing, listener: listener, gone: make(chan struct{})}
	p.open[number] = opened
	p.accepts.Go(func() { p.accept(opened) })
}

func (p *Ports) accept(from *port) {
	for {
		accepted, err := from.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select {
			case <-from.gone:
				return
			case <-time.After(acceptPause):
			}
			continue
		}
		found := &conn{Conn: accepted, port: from}
		select {
		case p.accepted <- found:
		case <-p.closed:
			_ = found.Close()
			return
		}
	}
}

// Ready returns why not all ports are open, or nil.
func (p *Ports) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known {
		return errors.New("the Functions are not loaded yet")
	}
	for number, why := range p.failed {
		return fmt.Errorf("port %d, and %d more, cannot be opened: %s", number, len(p.failed)-1, why)
	}
	return nil
}

// Open returns the number of open ports.
func (p *Ports) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// Accept implements net.Listener.
func (p *Ports) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accepted:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close closes all ports. Connections stay open.
func (p *Ports) Close() error {
	p.once.Do(func() {
		close(p.closed)
		p.mu.Lock()
		for number, opened := range p.open {
			opened.close()
			delete(p.open, number)
		}
		p.mu.Unlock()
		p.accepts.Wait()
	})
	return nil
}

// Addr implements net.Listener. It returns the address of no particular port.
func (p *Ports) Addr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(p.host)} }

func (p *port) close() {
	p.once.Do(func() {
		close(p.gone)
		_ = p.listener.Close()
	})
}

// conn is a connection to the port of a Function.
type conn struct {
	net.Conn
	port *port
}

// CloseWrite lets the client read the response before the connection closes.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Owner is the Function at whose port a connection was accepted.
type Owner struct{ port *port }

// Of returns the owner of a connection that Ports accepted; wrappers expose the connection by NetConn.
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

// Function returns the listing for which the port was opened.
func (o Owner) Function() activation.Listing { return o.port.function }

// Gone reports whether the Function no longer has the port.
func (o Owner) Gone() bool {
	select {
	case <-o.port.gone:
		return true
	default:
		return false
	}
}
