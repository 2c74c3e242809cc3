package kedaspans

import (
	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"go.opentelemetry.io/otel/attribute"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/scaler/httpload"
)

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
