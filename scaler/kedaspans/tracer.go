package kedaspans

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/tracing"
	"github.com/rouse-run/rouse/scaler/httpload"
)

const (
	service = "rouse-scaler"
	scope   = "github.com/rouse-run/rouse/scaler"
)

// Tracer makes the spans of a scaler.
type Tracer struct {
	live   *tracing.Live
	tracer trace.Tracer
}

// New makes the Tracer of the options, which makes no spans while it has no collector. It does not wait for one.
func New(ctx context.Context, options tracing.Options, log logr.Logger) (*Tracer, error) {
	live, err := tracing.NewLive(ctx, options, service, log)
	if err != nil {
		return nil, err
	}
	return &Tracer{live: live, tracer: live.Tracer(scope)}, nil
}

// Collect sends spans to another collector from now on, to none when the endpoint is empty.
func (t *Tracer) Collect(endpoint string) error { return t.live.Collect(endpoint) }

// Close sends the last spans. A nil Tracer has none.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.live.Close(ctx)
}

// FunctionOf says which Function a call is about, and is false where that is no name that a Function can have.
type FunctionOf func(*pb.ScaledObjectRef) (types.NamespacedName, bool)

// ServerOptions have a gRPC server make a span of each unary call of KEDA's. A nil Tracer has none.
func (t *Tracer) ServerOptions(functionOf FunctionOf) []grpc.ServerOption {
	if t == nil {
		return nil
	}
	return []grpc.ServerOption{
		grpc.StatsHandler(otelgrpc.NewServerHandler(
			otelgrpc.WithTracerProvider(t.live), otelgrpc.WithPropagators(propagation.TraceContext{}),
			otelgrpc.WithFilter(func(info *stats.RPCTagInfo) bool { return t.live.Active() && isTraced(info) }),
		)),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			out, err := handle(ctx, in)
			if span := trace.SpanFromContext(ctx); span.IsRecording() {
				span.SetAttributes(asked(in, functionOf)...)
				if err == nil {
					span.SetAttributes(answered(out)...)
				}
			}
			return out, err
		}),
	}
}

// isTraced leaves out streams, health checks, and calls of methods that there are not.
func isTraced(info *stats.RPCTagInfo) bool {
	switch info.FullMethodName {
	case pb.ExternalScaler_IsActive_FullMethodName, pb.ExternalScaler_GetMetrics_FullMethodName,
		pb.ExternalScaler_GetMetricSpec_FullMethodName:
		return true
	default:
		return false
	}
}

// Activated makes the span of an activation that was sent on a stream: from the first sign of a backlog, whose cause is given,
// until then. A nil Tracer makes none.
func (t *Tracer) Activated(function types.NamespacedName, cause string, since, sent time.Time) {
	if t == nil || !t.live.Active() {
		return
	}
	_, span := t.tracer.Start(context.Background(), "activate "+function.String(), trace.WithTimestamp(since),
		trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(named(function)...),
		trace.WithAttributes(attribute.Bool(keyActive, true), attribute.String(keyCause, cause)))
	span.End(trace.WithTimestamp(sent))
}

const (
	keyNamespace = "rouse.function.namespace"
	keyName      = "rouse.function.name"
	keyBacklog   = "rouse.scaler.backlog"
	keyCalls     = "rouse.scaler.calls"
	keyActive    = "rouse.scaler.active"
	keyTarget    = "rouse.scaler.target"
	keyCause     = "rouse.scaler.cause"
)

func named(function types.NamespacedName) []attribute.KeyValue {
	return []attribute.KeyValue{attribute.String(keyNamespace, function.Namespace), attribute.String(keyName, function.Name)}
}

// asked names the Function of a request.
func asked(in any, functionOf FunctionOf) []attribute.KeyValue {
	ref, ok := in.(*pb.ScaledObjectRef)
	if request, is := in.(*pb.GetMetricsRequest); is {
		ref, ok = request.GetScaledObjectRef(), true
	}
	if !ok {
		return nil
	}
	function, ok := functionOf(ref)
	if !ok {
		return nil
	}
	return named(function)
}

// answered is what KEDA is told.
func answered(out any) []attribute.KeyValue {
	switch answer := out.(type) {
	case *pb.IsActiveResponse:
		return []attribute.KeyValue{attribute.Bool(keyActive, answer.GetResult())}
	case *pb.GetMetricsResponse:
		if values := answer.GetMetricValues(); len(values) > 0 {
			key := attribute.Key(keyBacklog)
			if values[0].GetMetricName() == httpload.MetricName {
				key = keyCalls
			}
			return []attribute.KeyValue{key.Int64(int64(values[0].GetMetricValueFloat()))}
		}
	case *pb.GetMetricSpecResponse:
		if specs := answer.GetMetricSpecs(); len(specs) > 0 {
			return []attribute.KeyValue{attribute.Float64(keyTarget, specs[0].GetTargetSizeFloat())}
		}
	}
	return nil
}
