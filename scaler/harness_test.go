package scaler

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/kedatest"
	"github.com/rouse-run/rouse/scaler/kedaspans"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	shop        = "shop"
	orderPlaced = "kyma.webshop.order.placed.v1"
)

// routeTo is the Route of a Subscription that delivers to a Function of its own
// namespace.
func routeTo(namespace, function, subscription string, subjects ...string) routing.Route {
	return routing.Route{
		Subscription: types.NamespacedName{Namespace: namespace, Name: subscription},
		Consumer:     routing.ConsumerName(namespace, subscription),
		Subjects:     subjects,
		Service:      types.NamespacedName{Namespace: namespace, Name: function},
		Port:         80,
		MaxInFlight:  10,
	}
}

// rig is a Scaler that serves over memory, with everything around it faked.
type rig struct {
	t         *testing.T
	options   Options
	broker    *fakeBroker
	routes    *fakeRoutes
	endpoints *fakeEndpoints
	located   Endpoints // instead of those, when not nil
	http      *HTTP
	gateways  *fakeGateways
	pods      *fakePods
	listings  *fakeListings
	idleness  *fakeIdleness
	wants     *fakeWants
	registry  *prometheus.Registry
	tracer    *kedaspans.Tracer
	logs      *lines
	network   *network
	scaler    *Scaler
	conn      *grpc.ClientConn
	client    pb.ExternalScalerClient
	stop      func() // drains, as on SIGTERM
}

// inBubble runs a test in virtual time with a Scaler for the given routes, whose
// consumers exist.
func inBubble(t *testing.T, test func(r *rig), routes ...routing.Route) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.broker.create(routes...)
		r.routes.post(routes)
		r.start()
		test(r)
	})
}

func newRig(t *testing.T) *rig {
	t.Helper()
	options := DefaultOptions()
	options.DrainDelay = 0
	r := &rig{
		t: t, options: options,
		broker:    newFakeBroker(),
		routes:    &fakeRoutes{},
		endpoints: &fakeEndpoints{},
		gateways:  newFakeGateways(),
		pods:      &fakePods{},
		listings:  &fakeListings{},
		idleness:  &fakeIdleness{},
		wants:     &fakeWants{},
		registry:  prometheus.NewRegistry(),
		logs:      &lines{},
		network:   &network{},
	}
	r.http = &HTTP{Gateways: r.gateways, Pods: r.pods, Listings: r.listings, Idleness: r.idleness}
	r.endpoints.post(nil)
	return r
}

// start runs the Scaler until the test ends, or until stop.
func (r *rig) start() {
	r.t.Helper()
	r.serve()
	var err error
	r.conn, err = grpc.NewClient("passthrough:///scaler",
		grpc.WithContextDialer(r.network.dial),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(r.t, err)
	r.client = newClient(r.conn)
	r.t.Cleanup(func() {
		_ = r.conn.Close()
		r.stop()
	})
}

// serve runs a Scaler, in place of one that was stopped if there was one.
func (r *rig) serve() {
	listener := bufconn.Listen(1 << 20)
	r.network.lead(listener)
	r.serveOn(listener)
}

// serveTCP runs a Scaler on the loopback interface until the test ends.
func (r *rig) serveTCP() (address string) {
	r.t.Helper()
	listener, err := new(net.ListenConfig).Listen(r.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(r.t, err)
	r.serveOn(listener)
	r.t.Cleanup(r.stop)
	return listener.Addr().String()
}

func (r *rig) serveOn(listener net.Listener) {
	r.registry = prometheus.NewRegistry()
	endpoints := Endpoints(r.endpoints)
	if r.located != nil {
		endpoints = r.located
	}
	r.scaler = New(Deps{
		Routes: r.routes, Endpoints: endpoints,
		Backlogs: r.broker, Listener: r.broker, Connection: r.broker, HTTP: r.http, Wants: r.wants, Wakes: r.wants,
		Registry: r.registry, Tracer: r.tracer, Log: r.logs.logger(),
	}, r.options)
	s := r.scaler
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		err = s.Serve(ctx, listener)
	}()
	r.stop = func() {
		cancel()
		<-done
		assert.NoError(r.t, err)
	}
}

// keda runs a ScaledObject for the Function until the test ends. Pods become
// ready one second after they are wanted.
func (r *rig) keda(function string, change func(*kedatest.Options)) *kedatest.ScaledObject {
	r.t.Helper()
	service := types.NamespacedName{Namespace: shop, Name: function}
	options := kedatest.Options{
		Namespace: shop, Name: function,
		Metadata:        map[string]string{"scalerAddress": "scaler:9000", "function": function},
		PollingInterval: 10 * time.Second,
		CooldownPeriod:  time.Minute,
		OnReplicas: func(replicas int) {
			time.AfterFunc(time.Second, func() { r.awake(service, replicas > 0) })
		},
	}
	if change != nil {
		change(&options)
	}
	object := kedatest.New(r.conn, options)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = object.Run(ctx)
	}()
	r.t.Cleanup(func() {
		cancel()
		<-done
	})
	synctest.Wait()
	return object
}

// awake gives a Service a ready endpoint, or takes it away.
func (r *rig) awake(service types.NamespacedName, ready bool) {
	r.endpoints.mu.Lock()
	next := map[types.NamespacedName]bool{service: ready}
	for name, was := range r.endpoints.value {
		if name != service {
			next[name] = was
		}
	}
	r.endpoints.mu.Unlock()
	r.endpoints.post(next)
}

// pass lets virtual time go by, and what happens in it settle.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *rig) ref(function string, metadata ...string) *pb.ScaledObjectRef {
	ref := &pb.ScaledObjectRef{
		Namespace: shop, Name: function,
		ScalerMetadata: map[string]string{"scalerAddress": "scaler:9000", "function": function},
	}
	for i := 0; i < len(metadata); i += 2 {
		ref.ScalerMetadata[metadata[i]] = metadata[i+1]
	}
	return ref
}

// ask is what KEDA asks in one poll: the value and whether it is active.
func (r *rig) ask(ref *pb.ScaledObjectRef) (float64, bool, error) {
	r.t.Helper()
	metrics, err := r.client.GetMetrics(r.t.Context(), &pb.GetMetricsRequest{ScaledObjectRef: ref, MetricName: MetricName})
	active, activeErr := r.client.IsActive(r.t.Context(), ref)
	require.Equal(r.t, err == nil, activeErr == nil, "GetMetrics: %v, IsActive: %v", err, activeErr)
	if err != nil {
		return 0, false, err
	}
	require.Len(r.t, metrics.GetMetricValues(), 1)
	return metrics.GetMetricValues()[0].GetMetricValueFloat(), active.GetResult(), nil
}

// network leads a client to the Scaler that runs now, and can cut it off.
type network struct {
	mu       sync.Mutex
	listener *bufconn.Listener
	conns    []net.Conn
}

func (n *network) lead(listener *bufconn.Listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listener = listener
}

func (n *network) dial(ctx context.Context, _ string) (net.Conn, error) {
	n.mu.Lock()
	listener := n.listener
	n.mu.Unlock()
	conn, err := listener.DialContext(ctx)
	if err == nil {
		n.mu.Lock()
		n.conns = append(n.conns, conn)
		n.mu.Unlock()
	}
	return conn, err
}

// cut ends all connections the hard way.
func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, conn := range n.conns {
		_ = conn.Close()
	}
	n.conns = nil
}

// lines keeps what is logged.
type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.text = append(l.text, args)
	}, funcr.Options{})
}

// containing are the lines with that message.
func (l *lines) containing(message string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for _, line := range l.text {
		if matches(line, message) {
			found = append(found, line)
		}
	}
	return found
}

func matches(line, message string) bool { return strings.Contains(line, `"msg"="`+message+`"`) }

func newClient(conn *grpc.ClientConn) pb.ExternalScalerClient {
	return pb.NewExternalScalerClient(conn)
}
