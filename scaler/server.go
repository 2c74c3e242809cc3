package scaler

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/scaler/httpload"
)

// service answers KEDA from memory, but for the calls that pods run.
type service struct {
	pb.UnimplementedExternalScalerServer

	tracker  *tracker
	options  *Options
	metrics  *metrics
	stopping chan struct{} // closed when streams must end
	streams  streamCount
}

// IsActive reports whether the backlog is above the activation threshold, or
// calls over HTTP need the pods. It agrees with GetMetrics, as KEDA acts on both.
func (s *service) IsActive(ctx context.Context, ref *pb.ScaledObjectRef) (*pb.IsActiveResponse, error) {
	asked, f, err := s.find(ref)
	if err != nil {
		return nil, err
	}
	f.await(ctx)
	active, err := f.active(ctx)
	if err != nil {
		return nil, unavailable(asked, err)
	}
	return &pb.IsActiveResponse{Result: active}, nil
}

// GetMetrics returns the backlog, or the calls over HTTP.
func (s *service) GetMetrics(ctx context.Context, in *pb.GetMetricsRequest) (*pb.GetMetricsResponse, error) {
	asked, f, err := s.find(in.GetScaledObjectRef())
	if err != nil {
		return nil, err
	}
	name := in.GetMetricName()
	if name != MetricName && (name != httpload.MetricName || asked.http == httpOff) {
		return nil, status.Errorf(codes.InvalidArgument, "the trigger has no metric %s", quote(name))
	}
	f.await(ctx)
	value, err := f.measure(ctx, name)
	if err != nil {
		return nil, unavailable(asked, err)
	}
	return metricValue(name, value), nil
}

// GetMetricSpec returns the backlog that one replica is meant to carry. It never
// depends on the broker: without a spec KEDA would not even start to ask.
func (s *service) GetMetricSpec(ctx context.Context, ref *pb.ScaledObjectRef) (*pb.GetMetricSpecResponse, error) {
	asked, f, err := s.find(ref)
	if err != nil {
		return nil, err
	}
	threshold := asked.lagThreshold
	if threshold == 0 {
		f.await(ctx)
		threshold, _ = f.lagThreshold()
	}
	return metricSpecs(threshold, asked.httpConcurrency), nil
}

// find checks what KEDA sends, and finds the Function that it asks about.
func (s *service) find(ref *pb.ScaledObjectRef) (request, *function, error) {
	asked, err := parseRequest(ref)
	if err != nil {
		return request{}, nil, err
	}
	if s.tracker.deps.HTTP == nil {
		asked = asked.withoutHTTP()
	}
	f, err := s.tracker.function(asked)
	return asked, f, err
}

// unavailable is the status that KEDA receives when a value is not known.
func unavailable(asked request, err error) error {
	return status.Errorf(codes.Unavailable, "function %s: %s", asked.function, err)
}

// withDeadline bounds unary calls. KEDA sets no deadline, and holds a lock that
// a push needs while it waits.
func withDeadline(timeout time.Duration) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return handle(ctx, in)
	}
}

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
	group.Go(func() error { return s.tracker.aheads.run(work) })
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
	creds, err := s.options.TLS.credentials(s.deps.Log)
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

// TLSOptions secures the gRPC port.
type TLSOptions struct {
	// CertFile and KeyFile hold the server's certificate. They are read at each
	// handshake, so that a renewed one needs no restart.
	CertFile, KeyFile string
	// ClientCAFile, when set, makes a client certificate of that authority
	// necessary.
	ClientCAFile string
}

// Flags implements flags.Options.
func (o *TLSOptions) Flags(fs *flags.Set) {
	fs.String(&o.CertFile, "tls-cert", "file with the certificate of the gRPC port; plain text when empty")
	fs.String(&o.KeyFile, "tls-key", "file with the key of that certificate")
	fs.Require((o.CertFile == "") == (o.KeyFile == ""), "--tls-cert and --tls-key must be set together")
	fs.String(&o.ClientCAFile, "tls-client-ca", "file with the authority that KEDA's client certificate must come from")
	fs.Require(o.ClientCAFile == "" || o.CertFile != "", "--tls-client-ca needs --tls-cert and --tls-key")
}

// credentials are those of plain text when no TLS is wanted.
func (o *TLSOptions) credentials(log logr.Logger) (credentials.TransportCredentials, error) {
	if o.CertFile == "" {
		return insecure.NewCredentials(), nil
	}
	certificate, err := daemon.NewCertificate("the gRPC port", o.CertFile, o.KeyFile, log)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certificate.Get}
	if o.ClientCAFile != "" {
		pem, err := os.ReadFile(o.ClientCAFile)
		if err != nil {
			return nil, fmt.Errorf("read client authority: %w", err)
		}
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("no certificate in %s", o.ClientCAFile)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return credentials.NewTLS(config), nil
}
