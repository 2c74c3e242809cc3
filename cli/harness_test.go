package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev"
	"github.com/rouse-run/rouse/dev/instance"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/eventbridge"
	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/jetstream"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/kedarules"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

const (
	token       = "correct-horse"
	testTimeout = time.Minute
	tick        = 10 * time.Millisecond
	// unhurried keeps what a slow command waits for out of its output on a busy machine.
	unhurried = time.Hour
)

// controlPlane starts for the first test that needs it.
var controlPlane = envtest.New()

// TestMain gives the tests a separate state folder. Each test finds its local mode there by its folder.
func TestMain(m *testing.M) {
	state, err := os.MkdirTemp("", "rouse-cli-")
	if err == nil {
		err = os.Setenv("XDG_STATE_HOME", state)
	}
	if err != nil {
		panic(err)
	}
	code := controlPlane.Main(m)
	_ = os.RemoveAll(state)
	os.Exit(code)
}

type ran struct {
	code     int
	out, err string
}

func run(t *testing.T, stdin string, args ...string) ran {
	t.Helper()
	var out, errs bytes.Buffer
	code := Main(t.Context(), args, Streams{In: strings.NewReader(stdin), Out: &out, Err: &errs, ProgressAfter: unhurried})
	return ran{code, out.String(), errs.String()}
}

// fixture is a local mode with a real bridge, dead letters and control API. The test's handler serves the Function
// orders/pricing.
type fixture struct {
	directory string
	pricing   *loopback.Sink
	functions *fakeFunctions
	feed      *process.Feed
	conn      *broker.Conn
	instance  instance.Instance
}

func pricingRoute() routing.Route {
	consumer := routing.ConsumerName("orders", "pricing")
	redelivery := routing.RedeliverySubject(consumer)
	return routing.Route{
		Subscription: types.NamespacedName{Namespace: "orders", Name: "pricing"}, Consumer: consumer,
		Subjects:   []string{routing.Subject("shop", "order.received", false), redelivery},
		Redelivery: redelivery, Sink: "http://pricing.orders.svc.cluster.local/",
		Service: types.NamespacedName{Namespace: "orders", Name: "pricing"}, Port: 80, MaxInFlight: 10,
	}
}

func newFixture(t *testing.T, handler http.HandlerFunc) *fixture {
	t.Helper()
	w := &fixture{directory: t.TempDir(), pricing: loopback.StartSink(t, handler), feed: process.NewFeed(1000)}
	w.functions = &fakeFunctions{all: []runner.Status{
		{Namespace: "orders", Name: "pricing", Runtime: "nodejs22", URL: "http://" + w.pricing.Address(), Phase: runner.Ready, Desired: 1, Ready: 1},
		{Namespace: "orders", Name: "broken", Runtime: "python312", Phase: runner.Failing, LastError: "handler.py:3: no\nTraceback"},
	}}
	subs := fakeSubscriptions{
		{Namespace: "mail", Name: "thanks", Source: "invoicing", Types: []string{"order.invoiced"}, Sink: "http://thanks", State: "failing", Message: "no\nconsumer"},
		{
			Namespace: "orders", Name: "pricing", Source: "shop", Types: []string{"order.received"},
			Sink: "http://pricing.orders.svc.cluster.local", State: "ready",
		},
	}
	admin := w.startBridge(t)
	w.instance.Admin = "http://" + admin.Addr().String()
	w.instance.Control = serve(t, dev.NewControl(dev.ControlDeps{
		Functions: w.functions, Exposures: w.functions, Subscriptions: subs, Scaling: fakeScaling{}, Lines: w.feed, Recent: fakeRecent{}, Token: token,
	}))
	w.instance.Token, w.instance.Namespace = token, "default"
	w.announce(t)
	return w
}

// announce registers the local mode for commands.
func (w *fixture) announce(t *testing.T) {
	t.Helper()
	root, err := instance.Root()
	require.NoError(t, err)
	claim, err := instance.Acquire(t.Context(), root, w.directory)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, claim.Release()) })
	require.NoError(t, claim.Announce(w.instance))
}

// startBridge sets the URL of the publish endpoint, and returns the listener of the admin API.
func (w *fixture) startBridge(t *testing.T) net.Listener {
	t.Helper()
	server := natstest.Start(t)
	options := broker.DefaultOptions()
	options.URL = server.URL()
	conn, err := broker.Connect(t.Context(), options, logr.Discard())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	require.Eventually(t, conn.Connected, testTimeout, tick)
	require.NoError(t, conn.EnsureStreams(t.Context(), broker.DefaultStreamOptions()))
	route := pricingRoute()
	require.NoError(t, conn.EnsureConsumer(t.Context(), broker.DefaultStream, broker.Consumer{
		Name: route.Consumer, Description: "orders/pricing", Subjects: route.Subjects, AckWait: 30 * time.Second, MaxAckPending: route.MaxInFlight,
	}))
	w.conn = conn

	bridge := eventbridge.DefaultOptions()
	bridge.ShutdownDelay = 0
	bridge.Dispatch.Backoff = dispatch.Backoff{Base: tick, Max: time.Hour, Jitter: 0.2} // Retry-After may ask for more
	bridge.Dispatch.MaxAttempts = 2
	public, metrics, admin := listen(t), listen(t), listen(t)
	events := journal.New(1000)
	deps := eventbridge.Deps{
		Routes: fixedRoutes{route}, Endpoints: loopback.NewEndpoints(loopback.Ready(w.pricing.Address())),
		Store: jetstream.NewStore(conn, broker.NewPublisher(conn, broker.DefaultPublisherOptions()), broker.DefaultStream),
		Admin: jetstream.NewAdminStore(conn, broker.DefaultStream, events), Destination: "nats",
		AdminAccess: identity.Token(token),
		Woken:       conn,
		Journal:     events, Registry: prometheus.NewRegistry(), Log: logr.Discard(),
		Listener: public, MetricsListener: metrics, AdminListener: admin,
	}
	w.instance.Publish = "http://" + public.Addr().String() + "/publish"
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- eventbridge.New(deps, bridge).Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	return admin
}

// run runs a command line against this local mode.
func (w *fixture) run(t *testing.T, args ...string) ran {
	t.Helper()
	return w.runWith(t, "", args...)
}

func (w *fixture) runWith(t *testing.T, stdin string, args ...string) ran {
	t.Helper()
	return run(t, stdin, append(args, "--dir", w.directory)...)
}

// live is a command that runs until the test stops it.
type live struct {
	lines chan string
	stop  func() ran
}

func (w *fixture) live(t *testing.T, args ...string) *live {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	var errs bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		ended <- Main(ctx, append(args, "--dir", w.directory), Streams{In: strings.NewReader(""), Out: writer, Err: &errs, ProgressAfter: unhurried})
		_ = writer.Close()
	}()
	l := &live{lines: make(chan string, 1000)}
	go func() {
		defer close(l.lines)
		content, buffer := "", make([]byte, 4096)
		for {
			n, err := reader.Read(buffer)
			content += string(buffer[:n])
			for {
				line, rest, found := strings.Cut(content, "\n")
				if !found {
					break
				}
				l.lines <- line
				content = rest
			}
			if errors.Is(err, io.EOF) {
				return
			}
		}
	}()
	var once sync.Once
	var last ran
	l.stop = func() ran {
		once.Do(func() {
			cancel()
			last = ran{code: <-ended, err: errs.String()}
		})
		return last
	}
	t.Cleanup(func() { l.stop() })
	return l
}

// next waits for a line with the text.
func (l *live) next(t *testing.T, text string) string {
	t.Helper()
	timeout := time.After(testTimeout)
	for {
		select {
		case line, open := <-l.lines:
			if !open {
				require.Fail(t, "the command ended", "%+v", l.stop())
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-timeout:
			require.Fail(t, "no such line", text)
		}
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return listener
}

func serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	return server.URL
}

type fixedRoutes []routing.Route

func (f fixedRoutes) Watch(ctx context.Context, apply func([]routing.Route)) error {
	apply(f)
	<-ctx.Done()
	return nil
}

type fakeFunctions struct{ all []runner.Status }

type fakeSubscriptions []dev.SubscriptionStatus

func (f fakeSubscriptions) Status() []dev.SubscriptionStatus { return f }

func (f *fakeFunctions) Status() []runner.Status { return f.all }

type fakeScaling struct{}

func (fakeScaling) Backlog(fn types.NamespacedName) (int, bool) { return 3, fn.Name == "pricing" }

func (fakeScaling) Status(fn types.NamespacedName) *kedarules.Status {
	if fn.Name != "pricing" {
		return nil
	}
	return &kedarules.Status{Replicas: 1, Max: 5, CooldownSeconds: 5, Active: true, Metrics: []kedarules.Metric{{Name: "rouse-backlog", Value: 3, Target: 10}}}
}

// fakeRecent remembers an event, whatever was published.
type fakeRecent struct{}

func (fakeRecent) Find(ids []string, eventType string) []cloudevent.Event {
	known := cloudevent.Event{
		ID: "1001", Source: "shop", Type: "order.received", DataContentType: "application/json", Data: []byte(`{"id":"1001"}`),
		Extensions: []cloudevent.Extension{{Name: "rousecause", Value: "7"}, {Name: "tenant", Value: "a"}},
	}
	if len(ids) > 0 && !slices.Contains(ids, known.ID) || eventType != "" && eventType != known.Type {
		return nil
	}
	return []cloudevent.Event{known}
}

// URLs returns no URLs of APIRules.
func (f *fakeFunctions) URLs(types.NamespacedName) []string { return nil }
