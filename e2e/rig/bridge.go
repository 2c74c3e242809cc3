package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/eventbridge"
	"github.com/rouse-run/rouse/eventbridge/chain"
	"github.com/rouse-run/rouse/eventbridge/identity"
	"github.com/rouse-run/rouse/eventbridge/replica"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/routing"
)

// Indexes of a bridge's addresses, for Process.Address.
const (
	Public = iota
	Metrics
	Admin
)

// AdminToken is the token for the admin API of each bridge.
const AdminToken = "correct-horse"

// BridgeMemory is the chart's memory limit of a bridge, and of a gateway, in bytes.
const BridgeMemory int64 = 512 << 20

// Bridges is the Service of the bridges, whose endpoints a Fixture may contain.
var Bridges = types.NamespacedName{Namespace: "rouse-system", Name: "rouse-eventbridge"}

// Gateways is the ServiceAccount of gateways, whose token is its name.
var Gateways = types.NamespacedName{Namespace: "rouse-system", Name: "rouse-gateway"}

// Fixture replaces Kubernetes for the bridges of a run: it holds Subscriptions and the endpoints of their sinks.
type Fixture struct {
	NATS      string
	Routes    []routing.Route
	Schedules []*v1alpha1.Schedule
	Doors     []door.Known
	Endpoints map[string][]string // addresses of each Service, by namespace/name
	Review    time.Duration       // duration of a token review by the API server
}

// Route returns the route of a Subscription to events of source and type, with a sink in its namespace.
func Route(namespace, name, source, eventType string, maxInFlight int) routing.Route {
	consumer := routing.ConsumerName(namespace, name)
	redelivery := routing.RedeliverySubject(consumer)
	return routing.Route{
		Subscription: types.NamespacedName{Namespace: namespace, Name: name},
		Consumer:     consumer,
		Subjects:     []string{routing.Subject(source, eventType, false), redelivery},
		Redelivery:   redelivery,
		Sink:         fmt.Sprintf("http://%s.%s.svc.cluster.local/", name, namespace),
		Service:      types.NamespacedName{Namespace: namespace, Name: name},
		Port:         80,
		MaxInFlight:  maxInFlight,
	}
}

// WithDeadLetters returns the route with a sink for its dead letters.
func WithDeadLetters(route routing.Route, sink string) routing.Route {
	route.DeadLetters = &routing.Route{
		Subscription: route.Subscription, Consumer: route.Consumer, Subjects: []string{routing.DeadLetterSubject(route.Subscription)},
		Sink: sink, Service: route.Service, Port: route.Port, MaxInFlight: route.MaxInFlight, OfDeadLetters: true,
	}
	return route
}

// Prepare creates the streams and the routes' consumers like the controller, including deleted ones.
func (w Fixture) Prepare(ctx context.Context, conn *broker.Conn, streams broker.StreamOptions, ackWait time.Duration) error {
	consumers := make([]broker.Consumer, len(w.Routes))
	for i, route := range w.Routes {
		consumers[i] = broker.Consumer{
			Name: route.Consumer, Subjects: route.Subjects, MaxAckPending: route.MaxInFlight + route.Ahead(), AckWait: ackWait,
			Ordered: route.Delivery.OrderedBy != "",
		}
	}
	interested := func(context.Context) ([]broker.Consumer, error) { return consumers, nil }
	errs := []error{conn.EnsureStreamsFor(ctx, streams, interested)}
	for _, consumer := range consumers {
		errs = append(errs, conn.EnsureConsumer(ctx, streams.Name, consumer))
	}
	for _, route := range w.Routes {
		if route.DeadLetters != nil {
			errs = append(errs, conn.EnsureConsumer(ctx, broker.DeadLetterStream, broker.ConsumerOf(*route.DeadLetters)))
		}
	}
	return errors.Join(errs...)
}

// PrepareAlone is Prepare on a separate connection.
func (w Fixture) PrepareAlone(ctx context.Context, streams broker.StreamOptions, ackWait time.Duration) error {
	conn, err := Connect(ctx, w.NATS)
	if err != nil {
		return err
	}
	return errors.Join(w.Prepare(ctx, conn, streams, ackWait), conn.Close(ctx))
}

// Connect connects to NATS and returns when the connection is up.
func Connect(ctx context.Context, url string) (*broker.Conn, error) {
	conn, err := broker.Connect(ctx, broker.Options{URL: url, Name: "rig"}, logr.Discard())
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(startBound); !conn.Connected(); {
		if time.Now().After(deadline) || ctx.Err() != nil {
			return nil, errors.Join(fmt.Errorf("no connection to %s after %s", url, startBound), conn.Close(ctx))
		}
		time.Sleep(time.Millisecond)
	}
	return conn, nil
}

// StartBridge runs a bridge on a port, 0 for any, with the given flags of the eventbridge.
func (r *Rig) StartBridge(w Fixture, port int, flags ...string) (*Process, error) {
	text, err := json.Marshal(w)
	if err != nil {
		return nil, fmt.Errorf("write the fixture: %w", err)
	}
	file, err := os.CreateTemp(r.dir, "fixture-*.json")
	if err != nil {
		return nil, fmt.Errorf("write the fixture: %w", err)
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("write the fixture: %w", err)
	}
	args := append([]string{"--fixture", file.Name(), "--port", strconv.Itoa(port)}, flags...)
	if r.limit == 0 {
		return r.Start("bridge", args...)
	}
	group, err := newCgroup(cgroupRoot, r.limit)
	if err != nil {
		return nil, err
	}
	p, err := r.start(group, "bridge", args)
	if err != nil {
		group.remove()
	}
	return p, err
}

// LimitBridges limits the memory in bytes of each bridge that is started later, like a container's. It has no effect
// where that is not possible: without root, or without version 2 of control groups.
func (r *Rig) LimitBridges(bytes int64) {
	if group, err := newCgroup(cgroupRoot, bytes); err == nil {
		group.remove()
		r.limit = bytes
	}
}

// bridgeRole runs cmd/eventbridge with the chart's values, which are the flags' defaults.
func bridgeRole(ctx context.Context, ready func(string), args []string) error {
	fs := pflag.NewFlagSet("bridge", pflag.ContinueOnError)
	path := fs.String("fixture", "", "")
	port := fs.Int("port", 0, "")
	options, logOptions := replica.DefaultOptions(), daemon.DefaultLogOptions()
	options.Bridge.ShutdownDelay, options.Bridge.Service = 0, Bridges
	flags.Bind(fs, &options)
	if err := fs.Parse(args); err != nil {
		return err
	}
	w, err := readFixture(*path)
	if err != nil {
		return err
	}
	logged, err := os.Create(*path + ".log")
	if err != nil {
		return fmt.Errorf("log: %w", err)
	}
	defer func() { _ = logged.Close() }()
	log := logOptions.NewLogger(logged)
	conn, err := broker.Connect(ctx, broker.Options{URL: w.NATS, Name: "bridge"}, log)
	if err != nil {
		return err
	}
	listeners, err := listen(ctx, *port, 0, 0, 0)
	if err != nil {
		return err
	}
	deps := eventbridge.Deps{
		Routes: FixedRoutes(w.Routes), Schedules: FixedSchedules(w.Schedules), Endpoints: FixedEndpoints(w.Endpoints), Tokens: tokens(w.Review),
		AdminAccess: identity.Token(AdminToken), ChainKey: chain.NewKey([]byte(w.NATS)),
		Destination: w.NATS, Registry: daemon.NewRegistry(), Log: log,
		Listener: listeners[0], MetricsListener: listeners[1], AdminListener: listeners[2], DoorListener: listeners[3],
	}
	if len(w.Doors) > 0 {
		deps.Doors, deps.Gateways, options.Bridge.Gateway = FixedDoors(w.Doors).Watch, tokens(0), Gateways
	}
	bridge := replica.New(conn, deps, options)
	LimitMemory()
	stopProfile, err := Profile(ctx)
	if err != nil {
		return err
	}
	defer stopProfile()
	ready(fmt.Sprintf("http://%s http://%s http://%s http://%s", listeners[0].Addr(), listeners[1].Addr(), listeners[2].Addr(), listeners[3].Addr()))
	return daemon.RunOn(ctx, bridge.Run, conn.Hold, daemon.PaceCollector)
}

// LimitMemory sets the memory limit that the chart sets for a bridge or a gateway, unless GOMEMLIMIT does.
func LimitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(BridgeMemory / 10 * 9)
	}
}

// listen listens on ports of the loopback interface, 0 for any.
func listen(ctx context.Context, ports ...int) ([]net.Listener, error) {
	listeners := make([]net.Listener, len(ports))
	for i, port := range ports {
		listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			return nil, fmt.Errorf("listen: %w", err)
		}
		listeners[i] = listener
	}
	return listeners, nil
}

func readFixture(path string) (Fixture, error) {
	var w Fixture
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &w)
	}
	if err != nil {
		return Fixture{}, fmt.Errorf("read the fixture: %w", err)
	}
	return w, nil
}

// tokens accepts tokens of the form namespace/name, after the duration of a review.
type tokens time.Duration

// Review implements identity.Reviewer.
func (t tokens) Review(ctx context.Context, token, _ string) (identity.Account, error) {
	select {
	case <-time.After(time.Duration(t)):
	case <-ctx.Done():
		return identity.Account{}, ctx.Err()
	}
	namespace, name, ok := strings.Cut(token, "/")
	if !ok {
		return identity.Account{}, identity.ErrUnknown
	}
	return identity.Account{Namespace: namespace, Name: name}, nil
}

// FixedRoutes is an immutable set of routes.
type FixedRoutes []routing.Route

// Watch implements eventbridge.Routes.
func (f FixedRoutes) Watch(ctx context.Context, apply func([]routing.Route)) error {
	apply(f)
	<-ctx.Done()
	return nil
}

// FixedSchedules is an immutable set of Schedules.
type FixedSchedules []*v1alpha1.Schedule

// Watch implements timers.Schedules.
func (f FixedSchedules) Watch(ctx context.Context, apply func([]*v1alpha1.Schedule)) error {
	apply(f)
	<-ctx.Done()
	return nil
}

// FixedDoors is an immutable set of Doors.
type FixedDoors []door.Known

// Watch implements doors.Watch.
func (f FixedDoors) Watch(ctx context.Context, apply func([]door.Known)) error {
	apply(f)
	<-ctx.Done()
	return nil
}

// NoListings are those of gateways for which HTTP wakes no Function.
type NoListings struct{}

// Watch implements gateway.Listings.
func (NoListings) Watch(ctx context.Context, apply func([]activation.Listing)) error {
	apply(nil)
	<-ctx.Done()
	return nil
}

// FixedEndpoints is an immutable set of endpoints. A Service without any is asleep.
type FixedEndpoints map[string][]string

// Watch implements sink.Endpoints.
func (f FixedEndpoints) Watch(
	ctx context.Context, service types.NamespacedName, _ int32, apply func([]routing.Endpoint),
) error {
	var endpoints []routing.Endpoint
	for _, address := range f[service.String()] {
		endpoints = append(endpoints, routing.Endpoint{Address: address, Ready: true})
	}
	apply(endpoints)
	<-ctx.Done()
	return nil
}
