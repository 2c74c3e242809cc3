package eventbridge

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// link is the connection of one bridge to NATS. Cut, it leaves the bridge as a SIGKILL leaves NATS: without a word, and with
// messages that no client settles.
type link struct {
	server   string
	listener net.Listener

	mu    sync.Mutex
	cut   bool
	mute  bool // what the server sends is lost
	open  map[net.Conn]bool
	pumps sync.WaitGroup
}

func newLink(t *testing.T, serverURL string) *link {
	t.Helper()
	l := &link{server: strings.TrimPrefix(serverURL, "nats://"), listener: listen(t), open: map[net.Conn]bool{}}
	l.pumps.Go(l.accept)
	t.Cleanup(func() {
		require.NoError(t, l.listener.Close())
		l.set(true)
		l.pumps.Wait()
	})
	return l
}

func (l *link) url() string { return "nats://" + l.listener.Addr().String() }

// set cuts the link or mends it.
func (l *link) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	if cut {
		for conn := range l.open {
			_ = conn.Close()
		}
		clear(l.open)
	}
}

func (l *link) accept() {
	for {
		client, err := l.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", l.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		l.join(client, server)
	}
}

func (l *link) join(client, server net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut {
		_, _ = client.Close(), server.Close()
		return
	}
	l.open[client], l.open[server] = true, true
	for _, ends := range [][2]io.ReadWriteCloser{{server, client}, {muteConn{client, l}, server}} {
		l.pumps.Go(func() {
			_, _ = io.Copy(ends[0], ends[1])
			_, _ = ends[0].Close(), ends[1].Close()
		})
	}
}

// silence loses what the server sends from now on, so that it believes to have sent what never arrives.
func (l *link) silence(mute bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mute = mute
}

// muteConn is a client's connection, which drops what the server sends while the link is mute.
type muteConn struct {
	net.Conn

	link *link
}

// Write implements io.Writer.
func (h muteConn) Write(p []byte) (int, error) {
	h.link.mu.Lock()
	mute := h.link.mute
	h.link.mu.Unlock()
	if mute {
		return len(p), nil
	}
	return h.Conn.Write(p)
}
