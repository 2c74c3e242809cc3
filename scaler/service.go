package scaler

import (
	"context"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

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
	asked, err := s.parse(ref)
	if err != nil {
		return nil, err
	}
	f := s.tracker.function(asked.target)
	f.await(ctx)
	active, err := f.active(ctx)
	if err != nil {
		return nil, unavailable(asked, err)
	}
	return &pb.IsActiveResponse{Result: active}, nil
}

// GetMetrics returns the backlog, or the calls over HTTP.
func (s *service) GetMetrics(ctx context.Context, in *pb.GetMetricsRequest) (*pb.GetMetricsResponse, error) {
	asked, err := s.parse(in.GetScaledObjectRef())
	if err != nil {
		return nil, err
	}
	name := in.GetMetricName()
	if name != MetricName && (name != httpload.MetricName || asked.http == httpOff) {
		return nil, status.Errorf(codes.InvalidArgument, "the trigger has no metric %s", quote(name))
	}
	f := s.tracker.function(asked.target)
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
	asked, err := s.parse(ref)
	if err != nil {
		return nil, err
	}
	f := s.tracker.function(asked.target)
	threshold := asked.lagThreshold
	if threshold == 0 {
		f.await(ctx)
		threshold, _ = f.lagThreshold()
	}
	return metricSpecs(threshold, asked.httpConcurrency), nil
}

// parse checks what KEDA sends.
func (s *service) parse(ref *pb.ScaledObjectRef) (request, error) {
	asked, err := parseRequest(ref)
	if s.tracker.deps.HTTP == nil {
		asked = asked.withoutHTTP()
	}
	return asked, err
}

// unavailable is what KEDA is told when something is not known.
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
