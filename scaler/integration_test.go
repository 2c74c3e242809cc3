package scaler

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/kedatest"
	"github.com/rouse-run/rouse/internal/testing/natstest"
	"github.com/rouse-run/rouse/internal/testing/never"
	"github.com/rouse-run/rouse/scaler/httpload"
)

// timeout is less than the interval of KEDA's polls, which must not be what a test sees.
const timeout = time.Minute

// cluster is a Scaler on a real nats-server, in real time.
type cluster struct {
	t      *testing.T
	server *natstest.Server
	conn   *broker.Conn
	route  routing.Route
	rig    *rig // only for its client
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	server := natstest.Start(t)
	conn, err := broker.Connect(t.Context(), broker.Options{URL: server.URL(), Name: "scaler"}, logr.Discard())
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), timeout)
		defer cancel()
		_ = conn.Close(ctx)
	})
	require.Eventually(t, conn.Connected, timeout, time.Millisecond)
	streams := broker.DefaultStreamOptions()
	streams.MaxBytes, streams.DeadLetterMaxBytes = 64<<20, 16<<20
	require.NoError(t, conn.EnsureStreams(t.Context(), streams))

	c := &cluster{t: t, server: server, conn: conn, route: routeTo(shop, "order", "orders", orderPlaced)}
	c.ensureConsumer()
	c.serve()
	return c
}

func (c *cluster) ensureConsumer() {
	c.t.Helper()
	require.NoError(c.t, c.conn.EnsureConsumer(c.t.Context(), broker.DefaultStream,
		broker.Consumer{Name: c.route.Consumer, Subjects: c.route.Subjects}))
}

func (c *cluster) serve() {
	c.t.Helper()
	routes := &fakeRoutes{}
	routes.post([]routing.Route{c.route})
	options := DefaultOptions()
	options.DrainDelay = 0
	options.Refresh.ActiveInterval = 100 * time.Millisecond
	options.Refresh.WakeGrace = 500 * time.Millisecond
	s := New(Deps{
		Routes: routes, Endpoints: &fakeEndpoints{},
		Backlogs: c.conn, Listener: c.conn, Connection: c.conn,
		Registry: prometheus.NewRegistry(), Log: logr.Discard(),
	}, options)
	listener, err := new(net.ListenConfig).Listen(c.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(c.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, listener) }()
	client, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(c.t, err)
	c.t.Cleanup(func() {
		_ = client.Close()
		cancel()
		require.NoError(c.t, <-done)
	})
	c.rig = &rig{t: c.t, conn: client, client: newClient(client)}
}

func (c *cluster) publish(count int) {
	c.t.Helper()
	publisher := broker.NewPublisher(c.conn, broker.DefaultPublisherOptions())
	for i := range count {
		id := fmt.Sprintf("%s-%d-%d", c.t.Name(), time.Now().UnixNano(), i)
		e := cloudevent.Event{ID: id, Source: "webshop", Type: "order.placed.v1"}
		require.NoError(c.t, publisher.Publish(c.t.Context(), &e))
	}
}

// backlog asks once.
func (c *cluster) backlog() (float64, error) {
	metrics, err := c.rig.client.GetMetrics(c.t.Context(),
		&pb.GetMetricsRequest{ScaledObjectRef: c.rig.ref("order"), MetricName: MetricName})
	if err != nil {
		return 0, err
	}
	return metrics.GetMetricValues()[0].GetMetricValueFloat(), nil
}

// eventually asks until the answer is as wanted, and returns all answers.
func (c *cluster) eventually(want float64) (seen []float64) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		value, err := c.backlog()
		if err != nil {
			return false
		}
		seen = append(seen, value)
		return value == want
	}, timeout, 5*time.Millisecond)
	return seen
}

// keda runs a ScaledObject for the Function until the test ends, and returns
// when it is poised: only a push can act in time from then on.
func (c *cluster) keda() *kedatest.ScaledObject {
	c.t.Helper()
	object := kedatest.New(c.rig.conn, kedatest.Options{
		Namespace: shop, Name: "order", Metadata: map[string]string{"function": "order"},
		PollingInterval: 300 * time.Second,
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = object.Run(ctx)
	}()
	c.t.Cleanup(func() {
		cancel()
		<-done
	})
	require.Eventually(c.t, func() bool {
		opened, _ := object.Streams()
		polls, _, _ := object.Polls()
		return opened > 0 && polls > 0
	}, timeout, time.Millisecond)
	return object
}

func (c *cluster) awaitReplicas(object *kedatest.ScaledObject, want int) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), timeout)
	defer cancel()
	require.NoError(c.t, object.Await(ctx, func(o *kedatest.ScaledObject) bool { return o.Replicas() == want }))
}

func TestOneEventOnARealServerWakesAFunction(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	object := c.keda()
	c.eventually(0)
	c.publish(1)
	c.awaitReplicas(object, 1)

	var message *broker.Message
	received := make(chan struct{})
	require.NoError(t, broker.NewSource(c.conn, broker.DefaultStream, c.route.Consumer, c.route.Subscription, 10).
		Receive(t.Context(), received, func(m *broker.Message) {
			message = m
			close(received)
		}))
	c.eventually(1) // it is ack pending now
	require.NoError(t, message.Detach(t.Context(), time.Hour))
	waiting, err := c.conn.Backlog(t.Context(), broker.DefaultStream, c.route.Consumer)
	require.NoError(t, err)
	require.Zero(t, waiting.Total())
	never.Happens(t, func() bool {
		value, err := c.backlog()
		return err != nil || value < 1 // a reading at the moment of the detachment counts it twice
	}, 500*time.Millisecond, 10*time.Millisecond, "its call goes on")
	c.eventually(1)
	require.NoError(t, message.Ack(t.Context()))
	c.eventually(0)

	c.publish(25)
	c.eventually(25)
}

func TestARestartOfARealServerIsAnErrorAndNeverZero(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.publish(7)
	c.eventually(7)
	c.server.Stop()
	for range 20 {
		if value, err := c.backlog(); err == nil {
			require.InDelta(t, 7, value, 0)
		} else {
			require.Equal(t, codes.Unavailable, status.Code(err))
		}
	}
	c.server.Run()
	for _, value := range c.eventually(7) {
		require.InDelta(t, 7, value, 0)
	}
	require.Eventually(t, c.conn.Connected, timeout, time.Millisecond)
	c.publish(1)
	for _, value := range c.eventually(8) {
		require.GreaterOrEqual(t, value, 7.0)
	}
}

func TestASleepingFunctionIsWokenAfterARestartOfTheServer(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	object := c.keda()
	c.eventually(0)
	c.server.Stop()
	require.Eventually(t, func() bool {
		_, err := c.backlog()
		return status.Code(err) == codes.Unavailable
	}, timeout, time.Millisecond, "an idle function is not known to be idle any more")
	require.Zero(t, object.Replicas())
	c.server.Run()
	require.Eventually(t, c.conn.Connected, timeout, time.Millisecond)
	c.publish(1)
	c.awaitReplicas(object, 1)
}

func TestAConsumerThatIsDeletedAndMadeAgainIsFollowed(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.publish(3)
	c.eventually(3)
	require.NoError(t, c.conn.DeleteConsumer(t.Context(), broker.DefaultStream, c.route.Consumer))
	c.eventually(0)
	c.ensureConsumer()
	c.publish(2)
	c.eventually(2)
}

var gatewayService = types.NamespacedName{Namespace: "rouse-system", Name: "rouse-gateway"}

// servers are endpoints of Services by name, at servers of the test.
type servers struct {
	board[map[types.NamespacedName]string]
}

func (s *servers) Watch(ctx context.Context, service types.NamespacedName, _ int32, apply func([]routing.Endpoint)) error {
	return s.watch(ctx, func(addresses map[types.NamespacedName]string) {
		if address, ok := addresses[service]; ok {
			apply([]routing.Endpoint{{Address: address, Ready: true, Function: true}})
			return
		}
		apply(nil)
	})
}

func serveHTTP(t *testing.T, handler http.HandlerFunc) (address string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestRequestsOfRealGatewaysAndPodsWakeAndScale(t *testing.T) {
	t.Parallel()
	lines := make(chan string)
	var line atomic.Value
	line.Store(`{"functions":{}}`)
	gateway := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		for {
			_, _ = io.WriteString(w, line.Load().(string)+"\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case changed := <-lines:
				line.Store(changed)
			case <-time.After(time.Second):
			case <-r.Context().Done():
				return
			}
		}
	})
	var running atomic.Value
	running.Store(`{"requests":4,"running":3,"viaGateway":2}`)
	pod := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != activation.LoadPath {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, running.Load().(string))
	})

	r := newRig(t)
	endpoints := &servers{}
	endpoints.post(map[types.NamespacedName]string{gatewayService: gateway})
	asking := httpload.NewPods(httpload.PodsOptions{AllowLoopback: true})
	r.http.Gateways = httpload.NewGateways(endpoints, httpload.GatewaysOptions{Service: gatewayService, AllowLoopback: true}, logr.Discard())
	r.http.Pods = asking
	t.Cleanup(asking.Close)
	r.located = endpoints
	r.routes.post(nil)
	var err error
	r.conn, err = grpc.NewClient(r.serveTCP(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.conn.Close() })
	r.client = newClient(r.conn)
	eventually := func(holds func() bool, reason string) {
		t.Helper()
		require.Eventually(t, holds, timeout, 10*time.Millisecond, reason)
	}
	eventually(func() bool { return r.http.Gateways.Connected() == 1 }, "the gateway's stream")

	object := kedatest.New(r.conn, kedatest.Options{
		Namespace: shop, Name: "order", PollingInterval: 300 * time.Second,
		Metadata: map[string]string{"function": "order", "httpConcurrency": "50"},
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = object.Run(ctx)
	}()
	defer func() {
		cancel()
		<-done
	}()
	eventually(func() bool { ended, _, _ := object.Polls(); return ended > 0 }, "the first poll")
	require.Zero(t, object.Replicas())

	lines <- `{"functions":{"shop/order":{"requests":1,"waiting":1}}}`
	eventually(func() bool { return object.Replicas() == 1 }, "the wake")
	require.Equal(t, kedatest.Push, object.Transitions()[0].Reason)

	endpoints.post(map[types.NamespacedName]string{gatewayService: gateway, orderFunction: pod})
	lines <- `{"functions":{"shop/order":{"requests":1,"running":1}}}`
	eventually(func() bool { calls, err := r.calls(); return err == nil && calls == 3 },
		"one at the gateway, one of the pod's own, and one that is forged")
	running.Store("nonsense")
	eventually(func() bool { _, err := r.calls(); return err != nil }, "the pod answers nonsense")
}
