package autoscale

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/kedarules"
)

const testTimeout = time.Minute

// stub is a scaler whose responses the test sets.
type stub struct {
	pb.UnimplementedExternalScalerServer

	pushes chan bool
	ends   chan error // of streams

	mu      sync.Mutex
	value   float64
	err     error
	streams int // opened so far
	open    int // currently open
	asked   map[string]string
}

func newStub() *stub { return &stub{pushes: make(chan bool), ends: make(chan error)} }

func (s *stub) set(value float64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.value, s.err = value, err
}

func (s *stub) GetMetricSpec(_ context.Context, ref *pb.ScaledObjectRef) (*pb.GetMetricSpecResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = ref.GetScalerMetadata()
	return &pb.GetMetricSpecResponse{MetricSpecs: []*pb.MetricSpec{{MetricName: "backlog", TargetSize: 10}}}, nil
}

func (s *stub) GetMetrics(context.Context, *pb.GetMetricsRequest) (*pb.GetMetricsResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	return &pb.GetMetricsResponse{MetricValues: []*pb.MetricValue{{MetricName: "backlog", MetricValueFloat: s.value}}}, nil
}

func (s *stub) IsActive(context.Context, *pb.ScaledObjectRef) (*pb.IsActiveResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &pb.IsActiveResponse{Result: s.value > 0}, s.err
}

func (s *stub) StreamIsActive(_ *pb.ScaledObjectRef, stream grpc.ServerStreamingServer[pb.IsActiveResponse]) error {
	s.mu.Lock()
	s.streams++
	s.open++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
	}()
	for {
		select {
		case active := <-s.pushes:
			if err := stream.Send(&pb.IsActiveResponse{Result: active}); err != nil {
				return err
			}
		case err := <-s.ends:
			return err
		case <-stream.Context().Done():
			return nil
		}
	}
}

func (s *stub) awaitOpen(t *testing.T, streams int) {
	t.Helper()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.open == streams
	}, testTimeout, time.Millisecond, "%d streams are not open", streams)
}

func serve(t *testing.T, s *stub) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	pb.RegisterExternalScalerServer(server, s)
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() { server.Stop(); served.Wait() })
	conn, err := grpc.NewClient("passthrough:///scaler", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

var pricing = types.NamespacedName{Namespace: "orders", Name: "pricing"}

// fixture is a running Autoscaler with the numbers of replicas that it requested.
type fixture struct {
	*Autoscaler

	scaled chan int
}

func run(t *testing.T, s *stub, o Options, targets ...Target) fixture {
	t.Helper()
	w := fixture{scaled: make(chan int, 100)}
	w.Autoscaler = New(serve(t, s), func(fn types.NamespacedName, replicas int) {
		if fn == pricing {
			w.scaled <- replicas
		}
	}, o, logr.Discard())
	w.Apply(targets)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = w.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return w
}

func (w fixture) expect(t *testing.T, replicas int) {
	t.Helper()
	select {
	case got := <-w.scaled:
		require.Equal(t, replicas, got)
	case <-time.After(testTimeout):
		require.FailNow(t, "the Function was not scaled", "want %d", replicas)
	}
}

func quick() Options {
	return Options{Cooldown: 50 * time.Millisecond, Polling: 5 * time.Millisecond, ScaleDown: 10 * time.Millisecond}
}

func slow() Options {
	return Options{Cooldown: time.Hour, Polling: time.Hour, ScaleDown: time.Hour}
}

func TestABacklogWakesScalesAndLetsSleep(t *testing.T) {
	t.Parallel()
	s := newStub()
	w := run(t, s, quick(), Target{Function: pricing, Max: 3, LagThreshold: 7})
	w.expect(t, 0)
	s.set(25, nil)
	for last := 0; last != 3; { // a poll may see activity before it sees the backlog
		last = <-w.scaled
		require.Contains(t, []int{1, 3}, last)
	}
	require.Eventually(t, func() bool { backlog, known := w.Backlog(pricing); return known && backlog == 25 }, testTimeout, time.Millisecond)
	s.set(0, nil)
	for last := 3; last != 0; {
		last = <-w.scaled
		require.Less(t, last, 3)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Equal(t, map[string]string{"function": "pricing", "activationLagThreshold": "0", "lagThreshold": "7"}, s.asked)
}

func TestAPushWakesWithoutAPoll(t *testing.T) {
	t.Parallel()
	s := newStub()
	w := run(t, s, slow(), Target{Function: pricing, Max: 1})
	w.expect(t, 0)
	s.pushes <- false // has no effect
	s.pushes <- true
	w.expect(t, 1)
}

func TestAStreamThatEndsIsOpenedAgain(t *testing.T) {
	t.Parallel()
	s := newStub()
	w := run(t, s, slow(), Target{Function: pricing, Max: 1})
	w.expect(t, 0)
	s.ends <- nil
	s.ends <- errors.New("killed")
	s.pushes <- true
	w.expect(t, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Equal(t, 3, s.streams)
}

func TestUnknownBacklogHoldsTheReplicas(t *testing.T) {
	t.Parallel()
	s := newStub()
	w := run(t, s, quick(), Target{Function: pricing, Max: 1})
	w.expect(t, 0)
	s.set(1, nil)
	w.expect(t, 1)
	s.set(0, status.Error(codes.Unavailable, "no NATS"))
	select {
	case replicas := <-w.scaled:
		require.Fail(t, "it was scaled", "to %d", replicas)
	case <-time.After(4 * quick().Cooldown): // there is no event to await
	}
	s.set(0, nil)
	w.expect(t, 0)
}

func TestARequestWakesAndHolds(t *testing.T) {
	t.Parallel()
	w := run(t, newStub(), quick(), Target{Function: pricing, Max: 2})
	w.expect(t, 0)
	release := w.Hold(pricing)
	w.expect(t, 1)
	select {
	case replicas := <-w.scaled:
		require.Fail(t, "it was scaled", "to %d", replicas)
	case <-time.After(4 * quick().Cooldown): // there is no event to await
	}
	release()
	release()
	w.expect(t, 0)
	w.Hold(types.NamespacedName{Namespace: "orders", Name: "unknown"})()
}

func TestAddedAndRemovedFunctionsAreScaled(t *testing.T) {
	t.Parallel()
	s := newStub()
	w := run(t, s, slow())
	w.Apply([]Target{{Function: pricing, Min: 2, Max: 3}})
	w.expect(t, 2)
	w.Apply([]Target{{Function: pricing, Min: 1, Max: 1}})
	w.expect(t, 1)
	s.awaitOpen(t, 1)
	w.Apply(nil)
	s.awaitOpen(t, 0) // otherwise the old stream may receive the push
	_, known := w.Backlog(pricing)
	require.False(t, known)
	w.Apply([]Target{{Function: pricing, Max: 1}})
	w.expect(t, 0)
	s.pushes <- true
	w.expect(t, 1)
}

func TestBacklogChangesAreSignalled(t *testing.T) {
	t.Parallel()
	s := newStub()
	w := run(t, s, quick(), Target{Function: pricing, Max: 1})
	require.Eventually(t, func() bool { _, known := w.Backlog(pricing); return known }, testTimeout, time.Millisecond)
	changed := w.Changed()
	s.set(4, nil)
	select {
	case <-changed:
	case <-time.After(testTimeout):
		require.Fail(t, "no change was signalled")
	}
}

func TestTheStatusHoldsWhatTheLastPollFound(t *testing.T) {
	t.Parallel()
	s := newStub()
	w := run(t, s, quick(), Target{Function: pricing, Max: 3, LagThreshold: 7})
	s.set(25, nil)
	require.Eventually(t, func() bool { status := w.Status(pricing); return status.Replicas == 3 && len(status.Metrics) == 1 }, testTimeout, time.Millisecond)
	got := w.Status(pricing)
	require.NotNil(t, got.LastActive)
	got.LastActive = nil
	require.Equal(t, &kedarules.Status{
		Replicas: 3, Max: 3, Active: true, Metrics: []kedarules.Metric{{Name: "backlog", Value: 25, Target: 10}},
	}, got)
	s.set(0, status.Error(codes.Unavailable, "no NATS"))
	require.Eventually(t, func() bool { return w.Status(pricing).Problem != "" }, testTimeout, time.Millisecond)
	require.Contains(t, w.Status(pricing).Problem, "no NATS")
	require.Equal(t, 3, w.Status(pricing).Replicas, "an error holds the replicas")
	require.Nil(t, w.Status(types.NamespacedName{Namespace: "orders", Name: "none"}))
}
