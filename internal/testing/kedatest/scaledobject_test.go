package kedatest

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
)

// stub is a scaler whose responses the test sets.
type stub struct {
	pb.UnimplementedExternalScalerServer

	mu    sync.Mutex
	calls []string
	value float64
	err   error         // of unary calls
	end   error         // of streams
	life  time.Duration // of streams
	push  bool          // at the opening of a stream
	hang  chan struct{} // blocks GetMetrics unless nil
	wrong bool          // adds a malformed metric
}

func (s *stub) note(call string) (float64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, call)
	return s.value, s.err
}

func (s *stub) change(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *stub) GetMetricSpec(context.Context, *pb.ScaledObjectRef) (*pb.GetMetricSpecResponse, error) {
	_, err := s.note("GetMetricSpec")
	specs := []*pb.MetricSpec{{MetricName: "m", TargetSizeFloat: 10}}
	s.change(func() {
		if s.wrong {
			specs = append(specs, &pb.MetricSpec{MetricName: "wrong", TargetSizeFloat: 10})
		}
	})
	return &pb.GetMetricSpecResponse{MetricSpecs: specs}, err
}

func (s *stub) GetMetrics(_ context.Context, request *pb.GetMetricsRequest) (*pb.GetMetricsResponse, error) {
	if request.GetMetricName() == "wrong" {
		return nil, errors.New("this metric cannot be read")
	}
	s.mu.Lock()
	hang := s.hang
	s.mu.Unlock()
	if hang != nil {
		<-hang
	}
	value, err := s.note("GetMetrics")
	return &pb.GetMetricsResponse{MetricValues: []*pb.MetricValue{{MetricName: "m", MetricValueFloat: value}}}, err
}

func (s *stub) IsActive(context.Context, *pb.ScaledObjectRef) (*pb.IsActiveResponse, error) {
	value, err := s.note("IsActive")
	return &pb.IsActiveResponse{Result: value > 0}, err
}

func (s *stub) StreamIsActive(_ *pb.ScaledObjectRef, stream grpc.ServerStreamingServer[pb.IsActiveResponse]) error {
	s.mu.Lock()
	push, life, end := s.push, s.life, s.end
	s.mu.Unlock()
	if err := stream.Send(&pb.IsActiveResponse{Result: push}); err != nil {
		return err
	}
	select {
	case <-time.After(life):
	case <-stream.Context().Done():
	}
	return end
}

// fixture is the state of a test inside its synctest bubble.
type fixture struct {
	t      *testing.T
	object *ScaledObject
}

func run(t *testing.T, s *stub, change func(*Options), test func(w fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		listener := bufconn.Listen(1 << 16)
		server := grpc.NewServer()
		pb.RegisterExternalScalerServer(server, s)
		go func() { _ = server.Serve(listener) }()
		conn, err := grpc.NewClient("passthrough:///stub", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
		require.NoError(t, err)
		options := Options{Name: "o", Namespace: "n"}
		if change != nil {
			change(&options)
		}
		object := New(conn, options)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = object.Run(ctx)
		}()
		synctest.Wait()
		test(fixture{t: t, object: object})
		cancel()
		<-done
		_ = conn.Close()
		server.Stop()
	})
}

func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestAPollIsThreeCalls(t *testing.T) {
	t.Parallel()
	s := &stub{life: time.Hour}
	run(t, s, nil, func(w fixture) {
		t, o := w.t, w.object
		s.change(func() {
			require.Equal(t, []string{"GetMetricSpec", "GetMetricSpec", "GetMetrics", "IsActive"}, s.calls, "reconcile, poll")
			s.calls = nil
		})
		advance(30 * time.Second)
		s.change(func() { require.Equal(t, []string{"GetMetricSpec", "GetMetrics", "IsActive"}, s.calls) })
		require.Zero(t, o.Replicas())
	})
}

func TestNothingStartsWithoutASpec(t *testing.T) {
	t.Parallel()
	s := &stub{life: time.Hour, err: errors.New("not up"), push: true}
	run(t, s, nil, func(w fixture) {
		t, o := w.t, w.object
		advance(20 * time.Second)
		opened, _ := o.Streams()
		require.Zero(t, opened)
		s.change(func() { s.err = nil })
		advance(20 * time.Second)
		require.Equal(t, 1, o.Replicas())
	})
}

func TestBackoffIsResetOnlyAfterACleanEnd(t *testing.T) {
	t.Parallel()
	s := &stub{life: time.Second, end: errors.New("killed")}
	run(t, s, nil, func(w fixture) {
		t, o := w.t, w.object
		advance(4 * time.Minute)
		_, waits := o.Streams()
		require.Equal(t, []time.Duration{
			2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second,
			32 * time.Second, time.Minute, time.Minute,
		}, waits[:7])
		s.change(func() { s.end = nil })
		advance(2 * time.Minute)
		_, waits = o.Streams()
		require.Equal(t, 2*time.Second, waits[len(waits)-1])
	})
}

func TestOnlyTrueIsActedOn(t *testing.T) {
	t.Parallel()
	s := &stub{life: time.Hour}
	run(t, s, func(o *Options) { o.Replicas = 1 }, func(w fixture) {
		t, o := w.t, w.object
		received, _ := o.Pushed()
		require.Zero(t, received)
	})
	s = &stub{life: time.Hour, push: true}
	run(t, s, func(o *Options) { o.PollingInterval = time.Hour }, func(w fixture) {
		t, o := w.t, w.object
		require.Equal(t, 1, o.Replicas())
		require.Equal(t, Push, o.Transitions()[0].Reason)
	})
}

func TestAPollThatHangsHoldsUpThePush(t *testing.T) {
	t.Parallel()
	s := &stub{life: 40 * time.Second}
	run(t, s, nil, func(w fixture) {
		t, o := w.t, w.object
		hang := make(chan struct{}) // made inside the bubble
		s.change(func() { s.hang, s.push = hang, true })
		advance(time.Minute)
		require.Zero(t, o.Replicas())
		close(hang)
		synctest.Wait()
		require.Equal(t, 1, o.Replicas())
	})
}

func TestErrorHoldsReplicasAndZeroRemovesThemAfterTheCooldown(t *testing.T) {
	t.Parallel()
	s := &stub{life: time.Hour, value: 35}
	run(t, s, func(o *Options) { o.CooldownPeriod = time.Minute }, func(w fixture) {
		t, o := w.t, w.object
		advance(time.Minute)
		require.Equal(t, 4, o.Replicas(), "the HPA's share")
		s.change(func() { s.err = errors.New("unknown") })
		advance(10 * time.Minute)
		require.Equal(t, 4, o.Replicas())
		s.change(func() { s.err, s.value = nil, 0.5 })
		advance(31 * time.Second)
		s.change(func() { s.value = 0 })
		advance(45 * time.Second)
		require.NotZero(t, o.Replicas(), "in the cooldown")
		advance(time.Minute)
		require.Zero(t, o.Replicas())
	})
}

// The cooldown counts from status.lastActiveTime, which KEDA sets with every activation.
func TestAnActivationBesideATriggerThatFailsBeginsTheCooldown(t *testing.T) {
	t.Parallel()
	s := &stub{life: time.Hour, value: 1, wrong: true}
	run(t, s, func(o *Options) { o.CooldownPeriod = time.Minute }, func(w fixture) {
		t, o := w.t, w.object
		require.Equal(t, 1, o.Replicas())
		s.change(func() { s.value, s.wrong = 0, false })
		advance(45 * time.Second)
		require.Equal(t, 1, o.Replicas(), "in the cooldown")
		advance(time.Minute)
		require.Zero(t, o.Replicas())
	})
}

func TestHPARemovesReplicasOnlyAfterItsStabilizationWindow(t *testing.T) {
	t.Parallel()
	s := &stub{life: time.Hour, value: 35}
	run(t, s, nil, func(w fixture) {
		t, o := w.t, w.object
		advance(time.Minute)
		require.Equal(t, 4, o.Replicas())
		s.change(func() { s.value = 5 })
		advance(4 * time.Minute)
		require.Equal(t, 4, o.Replicas(), "four replicas were recommended within 300 s")
		advance(2 * time.Minute)
		require.Equal(t, 1, o.Replicas())
	})
}

// The HPA's write carries the resource version that it read, which is outdated.
func TestHPADoesNotWakeATargetThatKEDAScaledToZero(t *testing.T) {
	t.Parallel()
	s := &stub{life: time.Hour, value: 1}
	run(t, s, func(o *Options) { o.CooldownPeriod = 10 * time.Second }, func(w fixture) {
		t, o := w.t, w.object
		hang := make(chan struct{}) // made inside the bubble
		s.change(func() { s.value, s.hang = 0, hang })
		advance(20 * time.Second) // the HPA syncs at 15 s
		s.change(func() { s.hang = nil })
		advance(20 * time.Second) // KEDA polls at 30 s
		require.Zero(t, o.Replicas())
		close(hang)
		synctest.Wait()
		require.Zero(t, o.Replicas())
	})
}
