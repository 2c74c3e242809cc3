package eventbridge

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/jetstream"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const sinkURL = "http://price.shop.svc.cluster.local/in"

// fixture is a nats-server with the stream, one Subscription's consumer, and what the bridges of a test see.
type fixture struct {
	nats      *natstest.Server
	conn      *broker.Conn // of the test itself
	store     *jetstream.Store
	routes    *fakeRoutes
	endpoints *loopback.Endpoints
	ackWait   time.Duration
}

func newFixture(t *testing.T, endpoints ...routing.Endpoint) *fixture {
	t.Helper()
	w := &fixture{nats: natstest.Start(t), endpoints: loopback.NewEndpoints(endpoints...), ackWait: 2 * time.Second}
	w.conn = connect(t, w.nats.URL())
	w.store = newStore(w.conn)
	ensureStream(t, w.conn)
	ensureConsumer(t, w.conn, orders(sinkURL), w.ackWait)
	w.routes = newFakeRoutes(orders(sinkURL))
	return w
}

// replica is one running bridge.
type replica struct {
	url, metricsURL string
	bridge          *Bridge
	stop            func() error // drains and returns what Run returned; only the first call does
}

// start runs a bridge until it is stopped or the test ends.
func (w *fixture) start(t *testing.T, change ...func(*Deps, *Options)) *replica {
	t.Helper()
	options := DefaultOptions()
	options.ShutdownDelay = 0
	options.Dispatch.AckWait = w.ackWait
	options.Dispatch.Backoff = dispatch.Backoff{Base: 50 * time.Millisecond, Max: time.Second, Jitter: 0.2}
	options.Dispatch.MaxAttempts = 4
	deps := Deps{
		Routes: w.routes, Endpoints: w.endpoints, Store: newStore(connect(t, w.nats.URL())), Destination: "nats",
		Registry: prometheus.NewRegistry(), Log: logr.Discard(), Listener: listen(t), MetricsListener: listen(t),
	}
	for _, c := range change {
		c(&deps, &options)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	bridge := New(deps, options)
	go func() { ended <- bridge.Run(ctx) }()
	var once sync.Once
	r := &replica{
		bridge:     bridge,
		url:        "http://" + deps.Listener.Addr().String(),
		metricsURL: "http://" + deps.MetricsListener.Addr().String(),
		stop: func() (err error) {
			once.Do(func() {
				cancel()
				err = <-ended
			})
			return err
		},
	}
	t.Cleanup(func() { require.NoError(t, r.stop()) })
	return r
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return listener
}

// publish posts an order and returns the status and Retry-After.
func (r *replica) publish(t *testing.T, id string) (status int, retryAfter string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/publish", strings.NewReader(`{"order":"`+id+`"}`))
	require.NoError(t, err)
	for name, value := range map[string]string{
		"Ce-Specversion": "1.0", "Ce-Id": id, "Ce-Source": "shop", "Ce-Type": "order.received.v1", "Content-Type": "application/json",
	} {
		req.Header.Set(name, value)
	}
	resp, err := loopback.Default.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, resp.Header.Get("Retry-After")
}

// publishBatch posts orders as one batch and returns the answer.
func (r *replica) publishBatch(t *testing.T, events ...string) (status int, body string) {
	t.Helper()
	batch := strings.NewReader("[" + strings.Join(events, ",") + "]")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/publish", batch)
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/cloudevents-batch+json")
	resp, err := loopback.Default.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// publishMany posts n orders, from..from+n-1, and expects all to be stored.
func (r *replica) publishMany(t *testing.T, from, n int) {
	t.Helper()
	for i := range n {
		status, _ := r.publish(t, strconv.Itoa(from+i))
		require.Equal(t, http.StatusNoContent, status)
	}
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	resp, err := loopback.Default.Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(text)
}

// backlogIs waits for it.
func (w *fixture) backlogIs(t *testing.T, pending, ackPending uint64) {
	t.Helper()
	require.Eventually(t, func() bool {
		backlog, err := w.conn.Backlog(t.Context(), broker.DefaultStream, orders(sinkURL).Consumer)
		return err == nil && backlog == broker.Backlog{Pending: pending, AckPending: ackPending}
	}, timeout, tick, "the backlog is not %d pending and %d in delivery", pending, ackPending)
}

func (w *fixture) deadLetters(t *testing.T) int {
	t.Helper()
	count, err := w.conn.DeadLetters(t.Context(), orders(sinkURL).Subscription)
	require.NoError(t, err)
	return int(count)
}

// once is the expectation that the orders 0 to n-1 were delivered once each.
func once(n int) map[string]int {
	want := map[string]int{}
	for i := range n {
		want[strconv.Itoa(i)] = 1
	}
	return want
}

// fakeRoutes are set by the test.
type fakeRoutes struct {
	mu      sync.Mutex
	routes  []routing.Route
	changed chan struct{}
}

func newFakeRoutes(routes ...routing.Route) *fakeRoutes {
	return &fakeRoutes{routes: routes, changed: make(chan struct{})}
}

func (f *fakeRoutes) set(routes ...routing.Route) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.routes = routes
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeRoutes) Watch(ctx context.Context, apply func([]routing.Route)) error {
	for {
		f.mu.Lock()
		routes, changed := f.routes, f.changed
		f.mu.Unlock()
		apply(routes)
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

const (
	timeout = time.Minute
	tick    = 10 * time.Millisecond
	subject = "kyma.shop.order.received.v1"
)

// orders is the Subscription of these tests.
func orders(sink string) routing.Route {
	return routing.Route{
		Subscription: types.NamespacedName{Namespace: "shop", Name: "orders"},
		Consumer:     routing.ConsumerName("shop", "orders"),
		Subjects:     []string{subject, routing.RedeliverySubject(routing.ConsumerName("shop", "orders"))},
		Sink:         sink,
		Service:      types.NamespacedName{Namespace: "shop", Name: "price"},
		Port:         80,
		MaxInFlight:  10,
	}
}

// connect opens a connection of its own, as each replica has one.
func connect(t *testing.T, url string) *broker.Conn {
	t.Helper()
	options := broker.DefaultOptions()
	options.URL = url
	conn, err := broker.Connect(t.Context(), options, logr.Discard())
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		_ = conn.Close(ctx) // the server may be gone before
	})
	require.Eventually(t, conn.Connected, timeout, tick)
	return conn
}

func newStore(conn *broker.Conn) *jetstream.Store {
	return jetstream.NewStore(conn, broker.NewPublisher(conn, broker.DefaultPublisherOptions()), broker.DefaultStream)
}

func ensureStream(t *testing.T, conn *broker.Conn) {
	t.Helper()
	require.NoError(t, conn.EnsureStreams(t.Context(), broker.DefaultStreamOptions()))
}

func ensureConsumer(t *testing.T, conn *broker.Conn, route routing.Route, ackWait time.Duration) {
	t.Helper()
	ensureConsumerOf(t, conn, route, ackWait, route.MaxInFlight) // so that what is held is what is delivered
}

func ensureConsumerOf(t *testing.T, conn *broker.Conn, route routing.Route, ackWait time.Duration, unsettled int) {
	t.Helper()
	require.NoError(t, conn.EnsureConsumer(t.Context(), broker.DefaultStream, broker.Consumer{
		Name: route.Consumer, Subjects: route.Subjects, AckWait: ackWait, MaxAckPending: unsettled,
		Ordered: route.Delivery.OrderedBy != "", Metadata: broker.ConsumerOf(route).Metadata,
	}))
}

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
