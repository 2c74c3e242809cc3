package scaler

import (
	"context"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// service answers KEDA from memory.
type service struct {
	pb.UnimplementedExternalScalerServer

	tracker  *tracker
	options  *Options
	metrics  *metrics
	stopping chan struct{} // closed when streams must end
	streams  streamCount
}

// IsActive reports whether the backlog is above the activation threshold. It agrees
// with GetMetrics, as KEDA acts on both.
func (s *service) IsActive(ctx context.Context, ref *pb.ScaledObjectRef) (*pb.IsActiveResponse, error) {
	asked, err := parseRequest(ref)
	if err != nil {
		return nil, err
	}
	backlog, err := s.backlog(ctx, asked)
	if err != nil {
		return nil, err
	}
	return &pb.IsActiveResponse{Result: float64(backlog) > asked.activation}, nil
}

// GetMetrics returns the backlog.
func (s *service) GetMetrics(ctx context.Context, in *pb.GetMetricsRequest) (*pb.GetMetricsResponse, error) {
	asked, err := parseRequest(in.GetScaledObjectRef())
	if err != nil {
		return nil, err
	}
	if name := in.GetMetricName(); name != MetricName {
		return nil, status.Errorf(codes.InvalidArgument, "there is no metric %s, only %q", quote(name), MetricName)
	}
	backlog, err := s.backlog(ctx, asked)
	if err != nil {
		return nil, err
	}
	return metricValue(backlog), nil
}

// GetMetricSpec returns the backlog that one replica is meant to carry. It never
// depends on the broker: without a spec KEDA would not even start to ask.
func (s *service) GetMetricSpec(ctx context.Context, ref *pb.ScaledObjectRef) (*pb.GetMetricSpecResponse, error) {
	asked, err := parseRequest(ref)
	if err != nil {
		return nil, err
	}
	f := s.tracker.function(asked.target)
	if asked.lagThreshold > 0 {
		return metricSpec(asked.lagThreshold), nil
	}
	f.await(ctx)
	threshold, _ := f.lagThreshold()
	return metricSpec(threshold), nil
}

func (s *service) backlog(ctx context.Context, asked request) (uint64, error) {
	f := s.tracker.function(asked.target)
	f.await(ctx)
	backlog, err := f.answer()
	if err != nil {
		return 0, status.Errorf(codes.Unavailable, "function %s: %s", asked.function, err)
	}
	return backlog, nil
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
