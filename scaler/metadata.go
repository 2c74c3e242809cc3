package scaler

import (
	"math"
	"strconv"
	"strings"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// MetricName is the one metric of every Function.
const MetricName = "rouse-backlog"

// Keys of a trigger's metadata.
const (
	keyFunction   = "function"
	keyLag        = "lagThreshold"
	keyActivation = "activationLagThreshold"
)

// defaultLagThreshold is used while neither the metadata nor a Subscription
// gives one. It is Kyma's default of maxInFlightMessages.
const defaultLagThreshold = 10

// smallestLagThreshold is the smallest target that is not 0 once KEDA has
// rendered it with three decimals.
const smallestLagThreshold = 0.001

// target is what one trigger asks for. Triggers that differ only in what they
// want a replica to carry share a target.
type target struct {
	function   types.NamespacedName
	activation float64 // active means a backlog above this
}

// request is a checked ScaledObjectRef.
type request struct {
	target

	lagThreshold float64 // backlog per replica; 0 when the trigger leaves it open
}

// parseRequest checks what KEDA sends. The namespace is KEDA's own word, never
// the metadata's, which anyone who may create a ScaledObject can write.
func parseRequest(ref *pb.ScaledObjectRef) (request, error) {
	if ref.GetNamespace() == "" || ref.GetName() == "" {
		return request{}, status.Error(codes.InvalidArgument, "the ScaledObject's name and namespace are missing")
	}
	metadata := ref.GetScalerMetadata()
	for _, key := range []string{"namespace", "stream", "consumer", "subscription"} {
		if _, ok := metadata[key]; ok {
			return request{}, status.Errorf(codes.InvalidArgument,
				"metadata %s is not accepted: the backlog is that of the Function's Subscriptions in namespace %q; remove it",
				key, ref.GetNamespace())
		}
	}
	function := ref.GetName()
	if name, ok := metadata[keyFunction]; ok {
		function = name
	}
	if problems := validation.IsDNS1123Label(function); len(problems) > 0 {
		return request{}, status.Errorf(codes.InvalidArgument,
			"metadata %s %s must be the name of a Function in namespace %q: %s",
			keyFunction, quote(function), ref.GetNamespace(), strings.Join(problems, "; "))
	}
	lag, err := parseThreshold(metadata, keyLag, smallestLagThreshold,
		"a number from 0.001, the backlog that one replica is meant to carry")
	if err != nil {
		return request{}, err
	}
	activation, err := parseThreshold(metadata, keyActivation, 0,
		"a number from 0, the backlog above which the Function is active")
	if err != nil {
		return request{}, err
	}
	name := types.NamespacedName{Namespace: ref.GetNamespace(), Name: function}
	return request{target: target{function: name, activation: activation}, lagThreshold: lag}, nil
}

// functionOf is the Function of a request that names one. KEDA's namespaces are names, another caller's may be anything.
func functionOf(ref *pb.ScaledObjectRef) (types.NamespacedName, bool) {
	asked, err := parseRequest(ref)
	if err != nil || len(validation.IsDNS1123Label(asked.function.Namespace)) > 0 {
		return types.NamespacedName{}, false
	}
	return asked.function, true
}

// parseThreshold is 0 when the key is absent.
func parseThreshold(metadata map[string]string, key string, lowest float64, want string) (float64, error) {
	text, ok := metadata[key]
	if !ok {
		return 0, nil
	}
	value, err := strconv.ParseFloat(text, 64)
	// A threshold past int64 has no integer form, which older KEDA versions read.
	if err != nil || math.IsNaN(value) || value < lowest || value > math.MaxInt32 {
		return 0, status.Errorf(codes.InvalidArgument, "metadata %s is %s: set it to %s, or remove it", key, quote(text), want)
	}
	return value, nil
}

// quote keeps what a user wrote readable and short.
func quote(text string) string {
	const longest = 64
	if len(text) > longest {
		text = text[:longest] + "..."
	}
	return strconv.Quote(text)
}

// metricSpec fills both forms of the target, because KEDA before 2.17 reads
// only the integer. That one is rounded up, as 0 would be refused.
func metricSpec(size float64) *pb.GetMetricSpecResponse {
	return &pb.GetMetricSpecResponse{MetricSpecs: []*pb.MetricSpec{{
		MetricName:      MetricName,
		TargetSize:      int64(math.Ceil(size)),
		TargetSizeFloat: size,
	}}}
}

func metricValue(backlog uint64) *pb.GetMetricsResponse {
	return &pb.GetMetricsResponse{MetricValues: []*pb.MetricValue{{
		MetricName:       MetricName,
		MetricValue:      int64(backlog),
		MetricValueFloat: float64(backlog),
	}}}
}
