package activation

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// HeaderVia tells a pod that a call is counted elsewhere too. A gateway strips it from what callers send.
	HeaderVia = "Rouse-Via"
	// ViaGateway is the value of HeaderVia on calls of activators.
	ViaGateway = "gateway"
	// ViaEventbridge is the value of HeaderVia on deliveries of events.
	ViaEventbridge = "eventbridge"
	// HeaderFunction has the Function's UID in an activator's answer to GET /healthz.
	HeaderFunction = "Rouse-Function"
	// HeaderRefused has, in an activator's answer in place of a pod's, why: RefusedTimeout and others.
	HeaderRefused = "Rouse-Refused"
	// RefusedTimeout means that no pod took the request in time. None has seen it.
	RefusedTimeout = "timeout"
	// RefusedOverload means that too many requests wait. No pod has seen this one.
	RefusedOverload = "overload"
	// LoadPath is the path at which a runtime tells its load as PodLoad.
	LoadPath = "/.well-known/rouse/load"
	// GatewayLoadPath is the path at which a gateway streams its load, one GatewayLoads for each line.
	GatewayLoadPath = "/load"
)

// most is the largest count that is believed. Sums of them stay exact in JSON and in float64.
const most = 1 << 40

// PodLoad is what a runtime says of its calls.
type PodLoad struct {
	// Requests began since the pod started. Those to reserved paths are not among them.
	Requests uint64 `json:"requests"`
	// Running are under way, whoever sent them.
	Running uint64 `json:"running"`
	// ViaGateway and ViaEventbridge are those of Running that came with HeaderVia.
	ViaGateway     uint64 `json:"viaGateway"`
	ViaEventbridge uint64 `json:"viaEventbridge"`
}

// DecodePodLoad reads what a runtime has answered.
func DecodePodLoad(text []byte) (PodLoad, error) {
	var load PodLoad
	if err := json.Unmarshal(text, &load); err != nil {
		return PodLoad{}, fmt.Errorf("decode the load of a pod: %w", err)
	}
	if max(load.Requests, load.Running, load.ViaGateway, load.ViaEventbridge) > most {
		return PodLoad{}, fmt.Errorf("decode the load of a pod: a count above %d", most)
	}
	return load, nil
}

// FunctionLoad is what one gateway has for a Function.
type FunctionLoad struct {
	// Requests were accepted since the gateway started. It moves with those that are refused too, so that they wake the Function.
	Requests uint64 `json:"requests"`
	// Waiting are held until a pod accepts connections.
	Waiting uint64 `json:"waiting"`
	// Running were forwarded and are not finished.
	Running uint64 `json:"running"`
}

// GatewayLoads is one line of a gateway's stream: all Functions in the first, those that changed in the further ones.
type GatewayLoads struct {
	// Functions are keyed by namespace/name.
	Functions map[string]FunctionLoad `json:"functions"`
}

// DecodeGatewayLoads reads one line of a gateway's stream.
func DecodeGatewayLoads(line []byte) (map[types.NamespacedName]FunctionLoad, error) {
	var loads GatewayLoads
	if err := json.Unmarshal(line, &loads); err != nil {
		return nil, fmt.Errorf("decode the load of a gateway: %w", err)
	}
	decoded := make(map[types.NamespacedName]FunctionLoad, len(loads.Functions))
	for key, load := range loads.Functions {
		namespace, name, ok := strings.Cut(key, "/")
		if !ok || max(load.Requests, load.Waiting, load.Running) > most {
			return nil, fmt.Errorf("decode the load of a gateway: the entry of %q is no load of a Function", key)
		}
		decoded[types.NamespacedName{Namespace: namespace, Name: name}] = load
	}
	return decoded, nil
}
