package scaler

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"github.com/stretchr/testify/require"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/otlptest"
	"github.com/rouse-run/rouse/scaler/kedaspans"
)

const (
	callerTrace = "4bf92f3577b34da6a3ce929d0e0e4736"
	callerSpan  = "00f067aa0ba902b7"
	method      = "externalscaler.ExternalScaler/"
)

// traced is a Scaler on the loopback interface whose spans go to a collector.
type traced struct {
	*rig

	collector *otlptest.Collector
}

func startTraced(t *testing.T, ratio float64) *traced {
	t.Helper()
	r := &traced{rig: newRig(t), collector: otlptest.Start(t)}
	r.options.Tracing.Endpoint, r.options.Tracing.SampleRatio = r.collector.URL, ratio
	var err error
	r.tracer, err = kedaspans.New(t.Context(), r.options.Tracing, logr.Discard())
	require.NoError(t, err)
	route := routeTo(shop, "order", "orders", orderPlaced)
	r.broker.create(route)
	r.broker.set(route, broker.Backlog{Pending: 3})
	r.routes.post([]routing.Route{route})
	r.conn, err = grpc.NewClient(r.serveTCP(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.conn.Close() })
	r.client = newClient(r.conn)
	return r
}

// spans are all that were made, by name.
func (r *traced) spans() map[string]*tracev1.Span {
	r.t.Helper()
	r.stop()
	require.NoError(r.t, r.tracer.Close(r.t.Context()))
	found := map[string]*tracev1.Span{}
	for _, span := range r.collector.Spans() {
		require.NotContains(r.t, found, span.GetName())
		found[span.GetName()] = span
	}
	return found
}

// attributesOf are Rouse's own, without those of gRPC.
func attributesOf(span *tracev1.Span) map[string]any {
	found := map[string]any{}
	for _, attribute := range span.GetAttributes() {
		if name, ok := strings.CutPrefix(attribute.GetKey(), "rouse."); ok {
			switch value := attribute.GetValue().GetValue().(type) {
			case *commonv1.AnyValue_StringValue:
				found[name] = value.StringValue
			case *commonv1.AnyValue_IntValue:
				found[name] = value.IntValue
			case *commonv1.AnyValue_DoubleValue:
				found[name] = value.DoubleValue
			case *commonv1.AnyValue_BoolValue:
				found[name] = value.BoolValue
			}
		}
	}
	return found
}

func TestEachAnswerToKEDAIsASpanWithTheFunctionAndWhatWasAnswered(t *testing.T) {
	t.Parallel()
	r := startTraced(t, 1)
	value, active, err := r.ask(r.ref("order"))
	require.NoError(t, err)
	require.InDelta(t, 3, value, 0)
	require.True(t, active)
	_, err = r.client.GetMetricSpec(t.Context(), r.ref("order"))
	require.NoError(t, err)
	_, err = healthpb.NewHealthClient(r.conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	require.NoError(t, err)
	require.Equal(t, codes.Unimplemented, status.Code(r.conn.Invoke(t.Context(), "/"+method+"Nothing", r.ref("order"), &pb.IsActiveResponse{})))

	spans := r.spans()
	require.Len(t, spans, 3, "what KEDA does not ask is none")
	const namespace, name = "function.namespace", "function.name"
	require.Equal(t, map[string]any{namespace: shop, name: "order", "scaler.backlog": int64(3)}, attributesOf(spans[method+"GetMetrics"]))
	require.Equal(t, map[string]any{namespace: shop, name: "order", "scaler.active": true}, attributesOf(spans[method+"IsActive"]))
	require.Equal(t, map[string]any{namespace: shop, name: "order", "scaler.target": 10.0}, attributesOf(spans[method+"GetMetricSpec"]))
	for _, span := range spans {
		require.Equal(t, tracev1.Span_SPAN_KIND_SERVER, span.GetKind())
		require.Equal(t, tracev1.Status_STATUS_CODE_UNSET, span.GetStatus().GetCode())
	}
	require.Equal(t, "rouse-scaler", r.collector.Resource("service.name"))
}

func TestASpanAboutCallsOverHTTPSaysHowManyThereAre(t *testing.T) {
	t.Parallel()
	r := startTraced(t, 1)
	r.gateways.take(orderFunction, true)
	_, err := r.calls()
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"function.namespace": shop, "function.name": "order", "scaler.calls": int64(1),
	}, attributesOf(r.spans()[method+"GetMetrics"]))
}

func TestASpanOfACallWithoutAnAnswerSaysWhy(t *testing.T) {
	t.Parallel()
	r := startTraced(t, 1)
	r.broker.breakDown()
	_, err := r.client.IsActive(t.Context(), r.ref("order"))
	require.Equal(t, codes.Unavailable, status.Code(err))
	span := r.spans()[method+"IsActive"]
	require.Equal(t, map[string]any{"function.namespace": shop, "function.name": "order"}, attributesOf(span))
	require.Equal(t, tracev1.Status_STATUS_CODE_ERROR, span.GetStatus().GetCode())
	require.Equal(t, status.Convert(err).Message(), span.GetStatus().GetMessage())
}

func TestSpansHoldNothingThatIsNoNameOfAFunction(t *testing.T) {
	t.Parallel()
	for name, ref := range map[string]*pb.ScaledObjectRef{
		"a function":  {Namespace: shop, Name: "order", ScalerMetadata: map[string]string{"function": strings.Repeat("x", 1<<10)}},
		"a namespace": {Namespace: strings.Repeat("x", 1<<20), Name: "order"},
		"nothing":     {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startTraced(t, 1)
			_, _ = r.client.GetMetricSpec(t.Context(), ref)
			span := r.spans()[method+"GetMetricSpec"]
			require.NotNil(t, span)
			for key := range attributesOf(span) {
				require.NotContains(t, key, "function")
			}
			require.NotContains(t, span.String(), "xxx")
		})
	}
}

func TestTraceparentOfTheCallerDecidesWhetherASpanIsRecorded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		traceparent string
		ratio       float64
		want        int
	}{
		"the caller wants it":               {traceparent: "00-" + callerTrace + "-" + callerSpan + "-01", want: 1},
		"the caller does not want it":       {traceparent: "00-" + callerTrace + "-" + callerSpan + "-00", ratio: 1},
		"a new trace, none are wanted":      {},
		"what is no context is a new trace": {traceparent: "nonsense", ratio: 1, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := startTraced(t, tc.ratio)
			ctx := metadata.AppendToOutgoingContext(t.Context(), "traceparent", tc.traceparent)
			_, err := r.client.IsActive(ctx, r.ref("order"))
			require.NoError(t, err)
			spans := r.spans()
			require.Len(t, spans, tc.want)
			if tc.want > 0 && tc.ratio == 0 {
				require.Equal(t, callerSpan, hex.EncodeToString(spans[method+"IsActive"].GetParentSpanId()))
			}
		})
	}
}

func TestAnActivationIsASpanFromTheFirstSignOfABacklog(t *testing.T) {
	t.Parallel()
	r := startTraced(t, 1)
	began := time.Now()
	stream, err := r.client.StreamIsActive(t.Context(), r.ref("order"))
	require.NoError(t, err)
	answer, err := stream.Recv()
	require.NoError(t, err)
	require.True(t, answer.GetResult())
	require.Eventually(t, func() bool { return len(r.logs.containing("activation sent")) == 1 }, timeout, time.Millisecond)

	spans := r.spans()
	require.Len(t, spans, 1, "the stream itself is none")
	span := spans["activate "+shop+"/order"]
	require.Equal(t, map[string]any{
		"function.namespace": shop, "function.name": "order", "scaler.active": true, "scaler.cause": "poll",
	}, attributesOf(span))
	require.GreaterOrEqual(t, span.GetStartTimeUnixNano(), uint64(began.UnixNano()))
	require.LessOrEqual(t, span.GetStartTimeUnixNano(), span.GetEndTimeUnixNano())
	require.LessOrEqual(t, span.GetEndTimeUnixNano(), uint64(time.Now().UnixNano()))
}

func TestWithoutATracerCallsPassWithoutAHandlerForSpans(t *testing.T) {
	t.Parallel()
	var tracer *kedaspans.Tracer
	require.Empty(t, tracer.ServerOptions(functionOf))
	require.NotPanics(t, func() { tracer.Activated(types.NamespacedName{}, "", time.Time{}, time.Time{}) })
	require.NoError(t, tracer.Close(t.Context()))
}

func TestSpansAreMadeWhileThereIsACollector(t *testing.T) {
	t.Parallel()
	tracer, err := kedaspans.New(t.Context(), DefaultOptions().Tracing, logr.Discard())
	require.NoError(t, err)
	collector := otlptest.Start(t)
	activated := func() {
		tracer.Activated(types.NamespacedName{Namespace: shop, Name: "price"}, "publish", time.Now(), time.Now())
	}
	activated()
	require.NoError(t, tracer.Collect(collector.URL))
	activated()
	require.NoError(t, tracer.Collect(""))
	activated()
	require.NoError(t, tracer.Close(t.Context()))
	require.Len(t, collector.Spans(), 1)
}
