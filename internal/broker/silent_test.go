package broker

import (
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

// A server whose node has gone takes nothing more and says nothing, and the kernel waits for it for a quarter of an hour. A write to it
// holds up all else on the connection, the pings that would find it out among it.
func TestAServerThatTakesNothingMoreIsLeftForAnother(t *testing.T) {
	t.Parallel()
	cable := newCable(t, strings.TrimPrefix(natstest.Start(t).URL(), "nats://"))
	conn := connect(t, "nats://"+cable.address)
	awaitConnected(t, conn)
	require.NoError(t, conn.EnsureStreams(t.Context(), testStreams()))
	ensureConsumer(t, conn, Consumer{Name: "c1", Subjects: []string{"kyma.shop.order.received.v1"}})
	publisher := NewPublisher(conn, publisherOptions(func(o *PublisherOptions) { o.Timeout = time.Second }))
	large := func(n int) *cloudevent.Event {
		return newEvent(withData("text/plain", make([]byte, 128<<10)), func(e *cloudevent.Event) { e.ID = strconv.Itoa(n) })
	}
	pulledAt := time.Now()
	cable.pull()
	var publishers sync.WaitGroup
	for n := range 120 { // more than the kernel keeps
		publishers.Go(func() { _ = publisher.Publish(t.Context(), large(1+n)) })
	}
	publishers.Wait()
	for publisher.Publish(t.Context(), large(0)) != nil {
		require.Less(t, time.Since(pulledAt), 45*time.Second, "the library's own limit of a minute is over before it ends")
		time.Sleep(50 * time.Millisecond)
	}
}

// cable leads to a server until it is pulled. What connects afterwards gets through again.
type cable struct {
	address, server string
	listener        net.Listener

	mu     sync.Mutex
	pulled chan struct{}
	ends   []net.Conn
}

func newCable(t *testing.T, server string) *cable {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cable{address: listener.Addr().String(), server: server, listener: listener, pulled: make(chan struct{})}
	var serving sync.WaitGroup
	serving.Go(func() { c.serve(t, &serving) })
	t.Cleanup(func() {
		_ = listener.Close()
		c.pull()
		c.mu.Lock()
		for _, end := range c.ends {
			_ = end.Close()
		}
		c.mu.Unlock()
		serving.Wait()
	})
	return c
}

// pull has the connections of now carry nothing more, without an end of either side's knowing.
func (c *cable) pull() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.pulled)
	c.pulled = make(chan struct{})
}

func (c *cable) serve(t *testing.T, serving *sync.WaitGroup) {
	t.Helper()
	for {
		near, err := c.listener.Accept()
		if err != nil {
			return
		}
		far, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", c.server)
		if err != nil {
			_ = near.Close()
			continue
		}
		c.mu.Lock()
		c.ends = append(c.ends, near, far)
		pulled := c.pulled
		c.mu.Unlock()
		serving.Go(func() { carry(far, near, pulled) })
		serving.Go(func() { carry(near, far, pulled) })
	}
}

func carry(to, from net.Conn, pulled <-chan struct{}) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		select {
		case <-pulled:
			return
		default:
		}
		if err != nil {
			_ = to.Close()
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			_ = from.Close()
			return
		}
	}
}
