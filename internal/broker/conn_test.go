package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

func TestConnectSurvivesAServerThatComesLater(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	server.Stop()
	conn := connect(t, server.URL())
	connects := make(chan struct{}, 10)
	conn.OnConnect(func() { connects <- struct{}{} })

	require.False(t, conn.Connected())
	require.ErrorIs(t, conn.EnsureStreams(t.Context(), testStreams()), ErrNotConnected)
	_, err := conn.Backlog(t.Context(), testStream, "anyone")
	require.ErrorIs(t, err, ErrNotConnected)
	require.NotErrorIs(t, err, ErrConsumerNotFound)

	server.Run()
	await(t, connects)
	require.True(t, conn.Connected())
	require.NoError(t, conn.EnsureStreams(t.Context(), testStreams()))

	server.Restart()
	await(t, connects)
	require.True(t, conn.Connected())
}

func TestOnConnectIsCalledWhenAlreadyConnected(t *testing.T) {
	t.Parallel()
	conn := connect(t, natstest.Start(t).URL())
	awaitConnected(t, conn)
	connects := make(chan struct{}, 10)
	conn.OnConnect(func() { connects <- struct{}{} })
	await(t, connects)
}

func TestConnectUsesTheCredentialsOfTheURL(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.WithUser("rouse", "secret"))
	stranger := connect(t, server.URL())
	friend := connect(t, "nats://rouse:secret@"+server.URL()[len("nats://"):])
	awaitConnected(t, friend)
	require.False(t, stranger.Connected())
}

func TestConnectRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Connect(cancelled, DefaultOptions(), logr.Discard())
	require.ErrorIs(t, err, context.Canceled)

	_, err = Connect(t.Context(), Options{URL: "nats://127.0.0.1:1", CAFile: "missing.pem"}, logr.Discard())
	require.Error(t, err)
}

func TestCloseEndsInTimeWithoutAServer(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn := connect(t, server.URL())
	awaitConnected(t, conn)
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	start := time.Now()
	require.NoError(t, conn.Close(ctx))
	require.Less(t, time.Since(start), testTimeout/2)
	require.False(t, conn.Connected())
}

func await[T any](t *testing.T, events <-chan T) T {
	t.Helper()
	select {
	case event := <-events:
		return event
	case <-time.After(testTimeout):
		require.FailNow(t, "it did not happen in time")
		panic("unreachable")
	}
}

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

// One server after the other, and with them each leader, goes away while events
// are published and fetched. Nothing that was confirmed is lost.
func TestAClusterLosesNothingWhenItsServersRestart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a cluster takes its time")
	}
	cluster, conn := startCluster(t)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	seen := collect(ctx, t, newSource(conn))
	publisher := NewPublisher(conn, publisherOptions(func(o *PublisherOptions) { o.Timeout = time.Second }))
	confirmed := 0
	publishUntil := func(enough int) {
		for deadline := time.Now().Add(3 * testTimeout); confirmed < enough && time.Now().Before(deadline); {
			if publisher.Publish(ctx, eventWithID(strconv.Itoa(confirmed))) == nil {
				confirmed++
			}
		}
		require.Equal(t, enough, confirmed, "the cluster stores no more")
	}
	publishUntil(100)
	for i, server := range cluster.Servers {
		server.Stop()
		publishUntil(i*200 + 200)
		server.Run()
		publishUntil(i*200 + 300)
	}
	require.Eventually(t, func() bool {
		return len(seen()) == confirmed
	}, 3*testTimeout, 10*moment)
	require.Eventually(t, func() bool {
		backlog, err := conn.Backlog(t.Context(), testStream, "c1")
		return err == nil && backlog.Total() == 0
	}, 3*testTimeout, 10*moment)
}

// Publishers that publish at the same time, in batches, while one server after the other goes away.
func TestAClusterThatSyncsBatchesLosesNothingWhenItsServersRestart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a cluster takes its time")
	}
	const publishers, least = 16, 20
	cluster, conn := startCluster(t, natstest.WithSync())
	seen := collect(t.Context(), t, newSource(conn))
	publisher := NewPublisher(conn, publisherOptions(func(o *PublisherOptions) { o.Timeout = time.Second }))
	restarted := make(chan struct{})
	var confirmed atomic.Int64
	var all sync.WaitGroup
	for n := range publishers {
		all.Go(func() {
			for i, over := 0, false; (i < least || !over) && t.Context().Err() == nil; i++ {
				id := fmt.Sprintf("%d-%d", n, i)
				for publisher.Publish(t.Context(), eventWithID(id)) != nil && t.Context().Err() == nil {
					time.Sleep(moment)
				}
				confirmed.Add(1)
				select {
				case <-restarted:
					over = true
				default:
				}
			}
		})
	}
	grown := func(by int64) {
		enough := confirmed.Load() + by
		require.Eventually(t, func() bool { return confirmed.Load() >= enough }, 3*testTimeout, moment, "the cluster stores no more")
	}
	require.Eventually(t, func() bool { return hasBatched(publisher) }, 3*testTimeout, moment)
	for _, server := range cluster.Servers {
		server.Stop()
		grown(publishers)
		server.Run()
		require.Eventually(t, func() bool { return isReplicated(t, conn) }, 3*testTimeout, 100*moment)
	}
	close(restarted)
	all.Wait()
	require.Eventually(t, func() bool { return len(seen()) == int(confirmed.Load()) }, 3*testTimeout, 10*moment)
}

// hasBatched reports whether a batch has been published since the last connect.
func hasBatched(p *Publisher) bool {
	p.rounds.mu.Lock()
	defer p.rounds.mu.Unlock()
	for _, size := range p.rounds.pace.sizes {
		if size.batch > 0 {
			return true
		}
	}
	return false
}

// startCluster is a cluster of three with its streams and the consumer c1, and a connection to it.
func startCluster(t *testing.T, server ...natstest.Option) (*natstest.Cluster, *Conn) {
	t.Helper()
	cluster := natstest.StartCluster(t, 3, server...)
	conn := connect(t, cluster.URL())
	awaitConnected(t, conn)
	options := testStreams()
	options.Replicas = 3
	require.Eventually(t, func() bool { return conn.EnsureStreams(t.Context(), options) == nil }, testTimeout, 100*moment)
	consumer := Consumer{Name: "c1", Subjects: []string{testSubject}, AckWait: 2 * time.Second}
	require.Eventually(t, func() bool { return conn.EnsureConsumer(t.Context(), testStream, consumer) == nil }, testTimeout, 100*moment)
	require.Eventually(t, func() bool { return isReplicated(t, conn) }, testTimeout, 100*moment)
	return cluster, conn
}

// isReplicated says whether the consumer has a leader that all its replicas follow.
func isReplicated(t *testing.T, conn *Conn) bool {
	t.Helper()
	handle, err := conn.js.Consumer(t.Context(), testStream, "c1")
	if err != nil {
		return false
	}
	cluster := handle.CachedInfo().Cluster
	return cluster != nil && cluster.Leader != "" && len(cluster.Replicas) == 2 &&
		!slices.ContainsFunc(cluster.Replicas, func(p *jetstream.PeerInfo) bool { return !p.Current })
}

func TestMapError(t *testing.T) {
	t.Parallel()
	other := errors.New("something else")
	api := func(code int, number jetstream.ErrorCode, text string) error {
		return &jetstream.APIError{Code: code, ErrorCode: number, Description: text}
	}
	tests := map[string]struct {
		err, want error
	}{
		"nothing":                  {},
		"what it does not know":    {other, other},
		"a cancelled context":      {context.Canceled, context.Canceled},
		"a context's deadline":     {context.DeadlineExceeded, ErrTimeout},
		"a lost connection":        {nats.ErrDisconnected, ErrNotConnected},
		"a reconnect":              {nats.ErrReconnectBufExceeded, ErrNotConnected},
		"a closed connection":      {nats.ErrConnectionClosed, ErrNotConnected},
		"no responders":            {jetstream.ErrNoStreamResponse, ErrNoStream},
		"a large payload":          {nats.ErrMaxPayload, ErrTooLarge},
		"a stalled publisher":      {jetstream.ErrTooManyStalledMsgs, ErrBusy},
		"a missing confirmation":   {jetstream.ErrAsyncPublishTimeout, ErrTimeout},
		"a full disk":              {errors.New("write: no space left on device"), ErrStorageFull},
		"a full stream":            {api(503, 10077, "maximum bytes exceeded"), ErrStorageFull},
		"a full disk in an answer": {api(500, 10000, "no space left on device"), ErrStorageFull},
		"no consumer":              {jetstream.ErrConsumerNotFound, ErrConsumerNotFound},
		"no stream":                {jetstream.ErrStreamNotFound, ErrNoStream},
		"overlapping filters":      {api(400, 10138, "overlap"), ErrOverlappingSubjects},
		"too few peers":            {api(400, 10005, "no suitable peers"), ErrInsufficientResources},
		"an account's limit":       {api(400, 10002, "resource limits exceeded for account"), ErrInsufficientResources},
		"a repeat in process":      {api(409, 10158, "duplicate message id is in process"), ErrInProcess},
		"too little storage":       {api(500, 10047, "insufficient storage"), ErrInsufficientResources},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.ErrorIs(t, mapError(tc.err), tc.want)
		})
	}
}

func TestMapErrorKeepsTheCodeOfJetStream(t *testing.T) {
	t.Parallel()
	for name, code := range map[jetstream.ErrorCode]int{10054: 400, 10023: 503, 10076: 503} {
		err := mapError(&jetstream.APIError{Code: code, ErrorCode: name, Description: "no"})
		api, ok := errors.AsType[*APIError](err)
		require.True(t, ok)
		require.Equal(t, APIError{Code: code, ErrorCode: int(name), Description: "no"}, *api)
		require.ErrorContains(t, err, "JetStream: no (code")
	}
}
