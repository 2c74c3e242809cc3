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

	"github.com/rouse-run/rouse/scaler/httpload"
)

// MetricName is the metric that every Function has. One that HTTP wakes has httpload.MetricName, too.
const MetricName = "rouse-backlog"

// Keys of a trigger's metadata.
const (
	keyFunction   = "function" // a Function, which is also the name of its Service
	keyService    = "service"  // the Service of any workload, the sink of Subscriptions
	keyLag        = "lagThreshold"
	keyActivation = "activationLagThreshold"

	keyHTTPConcurrency = "httpConcurrency"
	keyHTTPCounted     = "httpCounted"
)

// httpMode is what of HTTP counts for a Function.
type httpMode int

const (
	httpOff        httpMode = iota
	httpAtGateways          // its pods cannot be asked: an image whose every path reaches the handler
	httpEverywhere
)

// The calls at a time that one replica may be meant to carry.
const (
	smallestConcurrency = 1
	largestConcurrency  = 1_000_000
)

// defaultLagThreshold is used while neither the metadata nor a Subscription
// gives one. It is Kyma's default of maxInFlightMessages.
const defaultLagThreshold = 10

// smallestLagThreshold is the smallest target that is not 0 once KEDA has
// rendered it with three decimals.
const smallestLagThreshold = 0.001

// target is what one trigger asks for. Triggers that differ only in what they
// want a replica to carry share a target. A trigger that is changed to count HTTP
// is another one: nothing that was seen before is taken for a look at its calls.
type target struct {
	function   types.NamespacedName
	activation float64 // active means a backlog above this
	http       httpMode
}

// request is a checked ScaledObjectRef.
type request struct {
	target

	lagThreshold    float64 // backlog per replica; 0 when the trigger leaves it open
	httpConcurrency float64 // calls per replica; 0 when HTTP counts nothing
}

// withoutHTTP is the request of a Function without HTTP load.
func (r request) withoutHTTP() request {
	r.http, r.httpConcurrency = httpOff, 0
	return r
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
	function, err := parseName(ref)
	if err != nil {
		return request{}, err
	}
	lag, err := parseNumber(metadata, keyLag, smallestLagThreshold, math.MaxInt32,
		"a number from 0.001, the backlog that one replica is meant to carry")
	if err != nil {
		return request{}, err
	}
	activation, err := parseNumber(metadata, keyActivation, 0, math.MaxInt32,
		"a number from 0, the backlog above which the Function is active")
	if err != nil {
		return request{}, err
	}
	concurrency, mode, err := parseHTTP(metadata)
	if err != nil {
		return request{}, err
	}
	name := types.NamespacedName{Namespace: ref.GetNamespace(), Name: function}
	return request{
		target:       target{function: name, activation: activation, http: mode},
		lagThreshold: lag, httpConcurrency: concurrency,
	}, nil
}

// parseName returns the name of a Function or of a Service, that of the ScaledObject where the trigger names none.
func parseName(ref *pb.ScaledObjectRef) (string, error) {
	metadata := ref.GetScalerMetadata()
	key, kind, name := keyFunction, "a Function", ref.GetName()
	if function, ok := metadata[keyFunction]; ok {
		name = function
	}
	if service, ok := metadata[keyService]; ok {
		if function, both := metadata[keyFunction]; both && function != service {
			return "", status.Errorf(codes.InvalidArgument, "metadata %s is %s and %s is %s: remove one of them",
				keyFunction, quote(function), keyService, quote(service))
		}
		key, kind, name = keyService, "a Service", service
	}
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return "", status.Errorf(codes.InvalidArgument, "metadata %s %s must be the name of %s in namespace %q: %s",
			key, quote(name), kind, ref.GetNamespace(), strings.Join(problems, "; "))
	}
	return name, nil
}

// parseHTTP is off when the trigger has no httpConcurrency.
func parseHTTP(metadata map[string]string) (concurrency float64, mode httpMode, err error) {
	concurrency, err = parseNumber(metadata, keyHTTPConcurrency, smallestConcurrency, largestConcurrency,
		"a number from 1 to 1000000, the calls at a time that one replica is meant to carry")
	if err != nil {
		return 0, httpOff, err
	}
	counted, given := metadata[keyHTTPCounted]
	switch {
	case given && counted != "true" && counted != "false":
		return 0, httpOff, status.Errorf(codes.InvalidArgument,
			"metadata %s is %s: set it to true or false, whether pods can be asked for their calls, or remove it", keyHTTPCounted, quote(counted))
	case concurrency == 0:
		return 0, httpOff, nil
	case counted == "false":
		return concurrency, httpAtGateways, nil
	}
	return concurrency, httpEverywhere, nil
}

// functionOf is the Function of a request that names one. KEDA's namespaces are names, another caller's may be anything.
func functionOf(ref *pb.ScaledObjectRef) (types.NamespacedName, bool) {
	asked, err := parseRequest(ref)
	if err != nil || len(validation.IsDNS1123Label(asked.function.Namespace)) > 0 {
		return types.NamespacedName{}, false
	}
	return asked.function, true
}

// parseNumber is 0 when the key is absent.
func parseNumber(metadata map[string]string, key string, lowest, highest float64, want string) (float64, error) {
	text, ok := metadata[key]
	if !ok {
		return 0, nil
	}
	value, err := strconv.ParseFloat(text, 64)
	// A threshold past int64 has no integer form, which older KEDA versions read.
	if err != nil || math.IsNaN(value) || value < lowest || value > highest {
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

// metricSpecs are those of the trigger, of which the HPA follows the one that
// wants more replicas.
func metricSpecs(lagThreshold, httpConcurrency float64) *pb.GetMetricSpecResponse {
	specs := []*pb.MetricSpec{metricSpec(MetricName, lagThreshold)}
	if httpConcurrency > 0 {
		specs = append(specs, metricSpec(httpload.MetricName, httpConcurrency))
	}
	return &pb.GetMetricSpecResponse{MetricSpecs: specs}
}

// metricSpec fills both forms of the target, because KEDA before 2.17 reads
// only the integer. That one is rounded up, as 0 would be refused.
func metricSpec(name string, size float64) *pb.MetricSpec {
	return &pb.MetricSpec{MetricName: name, TargetSize: int64(math.Ceil(size)), TargetSizeFloat: size}
}

func metricValue(name string, value uint64) *pb.GetMetricsResponse {
	return &pb.GetMetricsResponse{MetricValues: []*pb.MetricValue{{
		MetricName:       name,
		MetricValue:      int64(value),
		MetricValueFloat: float64(value),
	}}}
}
