package scaler

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/rouse-run/rouse/internal/routing"
)

// Scaler is the external scaler that KEDA talks to.
type Scaler struct {
	deps     Deps
	options  Options
	metrics  *metrics
	tracker  *tracker
	health   *health.Server
	stopping atomic.Bool
}

// New makes a Scaler from valid options. It does nothing before Run.
func New(deps Deps, options Options) *Scaler {
	s := &Scaler{deps: deps, options: options, metrics: newMetrics(deps.Registry), health: health.NewServer()}
	s.tracker = newTracker(&s.deps, &s.options, s.metrics)
	registerSnapshotAge(deps.Registry, s.tracker.oldest)
	if deps.HTTP != nil {
		registerGateways(deps.Registry, deps.HTTP.Gateways.Connected)
	}
	s.health.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
	return s
}

// Run serves at the address of the options until ctx ends, and then drains.
func (s *Scaler) Run(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.options.GRPCAddress)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", s.options.GRPCAddress, err)
	}
	return s.Serve(ctx, listener)
}

// Serve is Run on a listener of the caller's, which it closes. It may be called
// once.
func (s *Scaler) Serve(ctx context.Context, listener net.Listener) error {
	svc := &service{tracker: s.tracker, options: &s.options, metrics: s.metrics, stopping: make(chan struct{})}
	server, err := s.newServer(svc)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	s.deps.Connection.OnConnect(s.tracker.nudge)
	s.deps.Log.Info("listening", "server", "grpc", "address", listener.Addr().String())

	// What KEDA asks for is kept current until the last call is answered.
	work, endWork := context.WithCancel(context.WithoutCancel(ctx))
	defer endWork()
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := s.deps.Routes.Watch(work, s.setRoutes); err != nil && work.Err() == nil {
			return fmt.Errorf("watch subscriptions: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		s.tracker.run(work)
		return nil
	})
	if s.deps.HTTP != nil {
		group.Go(func() error { return s.deps.HTTP.Gateways.Run(work) })
	}
	group.Go(func() error {
		if err := server.Serve(listener); err != nil {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-groupCtx.Done()
		defer endWork()
		if ctx.Err() != nil {
			s.linger()
		}
		s.drain(server, svc)
		return nil
	})
	return group.Wait()
}

func (s *Scaler) newServer(svc *service) (*grpc.Server, error) {
	creds, err := s.options.TLS.credentials()
	if err != nil {
		return nil, err
	}
	options := append(s.deps.Tracer.ServerOptions(functionOf),
		grpc.Creds(creds),
		grpc.UnaryInterceptor(withDeadline(s.options.AnswerTimeout)),
		// KEDA's own client never notices a dead peer, so this side has to. There
		// is no limit to a connection's age, which would break streams off.
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: 30 * time.Second, Timeout: 10 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	)
	server := grpc.NewServer(options...)
	pb.RegisterExternalScalerServer(server, svc)
	healthpb.RegisterHealthServer(server, s.health)
	return server, nil
}

// setRoutes makes the Scaler ready with the first routes it gets: before
// that it can only say that it does not know.
func (s *Scaler) setRoutes(routes []routing.Route) {
	s.tracker.setRoutes(routes)
	s.health.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
}

// linger lets name resolution lead KEDA to another replica before this one goes.
func (s *Scaler) linger() {
	s.stopping.Store(true)
	s.health.Shutdown()
	time.Sleep(s.options.DrainDelay)
}

// drain ends the streams, then the listener, then the calls.
func (s *Scaler) drain(server *grpc.Server, svc *service) {
	s.stopping.Store(true)
	s.health.Shutdown()
	close(svc.stopping)
	if !svc.streams.wait(s.options.DrainTimeout) {
		s.deps.Log.Info("streams did not end in time", "timeout", s.options.DrainTimeout.String())
	}
	force := time.AfterFunc(s.options.DrainTimeout, server.Stop)
	defer force.Stop()
	server.GracefulStop()
}
