package eventbridge

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

var bridges = types.NamespacedName{Namespace: "rouse-system", Name: "rouse-eventbridge"}

// replicated has the bridges' own Service beside those of sinks.
type replicated struct{ sinks, bridges *loopback.Endpoints }

// Watch implements sink.Endpoints.
func (r replicated) Watch(ctx context.Context, service types.NamespacedName, port int32, apply func([]routing.Endpoint)) error {
	if service == bridges {
		return r.bridges.Watch(ctx, service, port, apply)
	}
	return r.sinks.Watch(ctx, service, port, apply)
}

// busySink answers when it is released, and counts the calls that wait for that.
type busySink struct {
	*loopback.Sink

	release    chan struct{}
	mu         sync.Mutex
	busy, most int
}

func newBusySink(t *testing.T) *busySink {
	t.Helper()
	s := &busySink{release: make(chan struct{})}
	s.Sink = loopback.StartSink(t, func(http.ResponseWriter, *http.Request) {
		s.mu.Lock()
		s.busy++
		s.most = max(s.most, s.busy)
		s.mu.Unlock()
		<-s.release
		s.mu.Lock()
		s.busy--
		s.mu.Unlock()
	})
	return s
}

func (s *busySink) calls() (busy, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy, s.most
}

// startReplica runs a bridge that knows the others, with a sink of its own.
func (w *fixture) startReplica(t *testing.T, address string, others *loopback.Endpoints) *replica {
	t.Helper()
	return w.start(t, func(deps *Deps, options *Options) {
		deps.Endpoints = replicated{loopback.NewEndpoints(loopback.Ready(address)), others}
		options.Service = bridges
	})
}

// newAheadFixture has the consumer that the controller makes, which lets events be held ahead.
func newAheadFixture(t *testing.T) (w *fixture, route routing.Route) {
	t.Helper()
	w, route = newFixture(t), orders(sinkURL)
	ensureConsumerOf(t, w.conn, route, w.ackWait, route.MaxInFlight+route.Ahead())
	return w, route
}

func TestReplicasDivideTheLimitOfDeliveriesAndEachHoldsOneEventAheadOfASlowSink(t *testing.T) {
	t.Parallel()
	w, route := newAheadFixture(t)
	sink := newBusySink(t)
	others := loopback.NewEndpoints(loopback.Ready("10.0.0.1:80"), routing.Endpoint{Address: "10.0.0.2:80", Terminating: true})
	w.startReplica(t, sink.Address(), others)
	w.startReplica(t, sink.Address(), others).publishMany(t, 0, 100)
	require.Eventually(t, func() bool {
		backlog, err := w.conn.Backlog(t.Context(), broker.DefaultStream, route.Consumer)
		busy, _ := sink.calls()
		return err == nil && busy == route.MaxInFlight && int(backlog.AckPending) == route.MaxInFlight+2
	}, timeout, tick)
	close(sink.release)
	w.backlogIs(t, 0, 0)
	_, most := sink.calls()
	require.Equal(t, route.MaxInFlight, most)
}

func TestAReplicaThatIsAloneHasTheWholeLimit(t *testing.T) {
	t.Parallel()
	w, route := newAheadFixture(t)
	sink := newBusySink(t)
	others := loopback.NewEndpoints(loopback.Ready("10.0.0.1:80"), loopback.Ready("10.0.0.2:80"))
	w.startReplica(t, sink.Address(), others).publishMany(t, 0, 100)
	require.Eventually(t, func() bool {
		busy, _ := sink.calls()
		return busy == route.MaxInFlight/2
	}, timeout, tick)
	others.Set(loopback.Ready("10.0.0.1:80"))
	sink.release <- struct{}{} // what ends asks for the next
	require.Eventually(t, func() bool {
		busy, _ := sink.calls()
		return busy == route.MaxInFlight
	}, timeout, tick)
	close(sink.release)
	w.backlogIs(t, 0, 0)
}

func TestAReplicaWhoseCallsTakeLongKeepsFewEventsFromTheOthers(t *testing.T) {
	t.Parallel()
	w, route := newAheadFixture(t)
	slow, quick := newBusySink(t), loopback.StartSink(t, nil)
	others := loopback.NewEndpoints(loopback.Ready("10.0.0.1:80"), loopback.Ready("10.0.0.2:80"))
	w.startReplica(t, slow.Address(), others)
	w.startReplica(t, quick.Address(), others).publishMany(t, 0, 100)
	deliveries, _ := route.Share(2)
	require.Eventually(t, func() bool { return len(quick.Requests()) >= 100-deliveries-1 }, timeout, tick, "it settles none, so it holds one ahead")
	close(slow.release)
	w.backlogIs(t, 0, 0)
}

func TestTheServiceOfTheBridgesHasANamespace(t *testing.T) {
	t.Parallel()
	service, err := parseService("rouse-system/rouse-eventbridge")
	require.NoError(t, err)
	require.Equal(t, bridges, service)
	service, err = parseService("")
	require.NoError(t, err)
	require.Empty(t, service.Name)
	for _, text := range []string{"rouse-eventbridge", "/rouse-eventbridge", "rouse-system/", "a/b/c"} {
		_, err = parseService(text)
		require.ErrorContains(t, err, "namespace/name", text)
	}
}
