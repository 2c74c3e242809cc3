package activation

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

const (
	// ManagedBy is the value of the label endpointslice.kubernetes.io/managed-by on slices that list activators. Kubernetes'
	// own controller leaves them alone, and whoever looks for pods leaves them out.
	ManagedBy = "gateway.rouse.run"
	// ServicePort is the only port of a Function's Service, and PortName its name, by which slices refer to it.
	ServicePort = 80
	// PortName is the name of the only port of a Function's Service.
	PortName = "http"
	// FirstPort and LastPort bound the ports of activators, one for each Function. They lie below the range from which Linux
	// takes the ports of outgoing connections.
	FirstPort = 10000
	// LastPort is the last port of activators.
	LastPort = 32767
)

// Listing holds the addresses of a Function's activators, as an EndpointSlice of one address family lists them.
type Listing struct {
	Function types.NamespacedName
	// UID is that of the Function.
	UID types.UID
	// Port is the activators' port for this Function.
	Port int32
	// Addresses are those of the activators; none while pods alone are listed.
	Addresses []string
}

// SliceName is the name of the slice that lists the activators of a Function.
func SliceName(function string, family discoveryv1.AddressType) string {
	return function + "-rouse-" + strings.ToLower(string(family))
}

// IsOurs reports whether a slice lists activators and no pods.
func IsOurs(slice *discoveryv1.EndpointSlice) bool {
	return slice.Labels[discoveryv1.LabelManagedBy] == ManagedBy
}

// ListingOf reads a slice of ours. It is false for one of others, for one that is being deleted, and for one that the
// controller cannot have written.
func ListingOf(slice *discoveryv1.EndpointSlice) (Listing, bool) {
	name := slice.Labels[discoveryv1.LabelServiceName]
	if !IsOurs(slice) || name == "" || !slice.DeletionTimestamp.IsZero() || slice.Name != SliceName(name, slice.AddressType) {
		return Listing{}, false
	}
	listing := Listing{
		Function: types.NamespacedName{Namespace: slice.Namespace, Name: name},
		UID:      types.UID(slice.Labels[v1alpha2.LabelUUID]),
	}
	var ok bool
	if listing.Port, ok = portOf(slice); !ok {
		return Listing{}, false
	}
	if listing.Addresses, ok = readyAddresses(slice.Endpoints); !ok {
		return Listing{}, false
	}
	return listing, true
}

// readyAddresses are those of the endpoints that are ready. It is false when one of them is no IP address.
func readyAddresses(endpoints []discoveryv1.Endpoint) ([]string, bool) {
	var addresses []string
	for i := range endpoints {
		endpoint := &endpoints[i]
		if len(endpoint.Addresses) == 0 || !ptr.Deref(endpoint.Conditions.Ready, true) {
			continue
		}
		if _, err := netip.ParseAddr(endpoint.Addresses[0]); err != nil {
			return nil, false
		}
		addresses = append(addresses, endpoint.Addresses[0])
	}
	return addresses, true
}

// portOf is the only port of a slice, if that is one of activators.
func portOf(slice *discoveryv1.EndpointSlice) (int32, bool) {
	if len(slice.Ports) != 1 || ptr.Deref(slice.Ports[0].Name, "") != PortName {
		return 0, false
	}
	port := ptr.Deref(slice.Ports[0].Port, 0)
	return port, port >= FirstPort && port <= LastPort
}

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

// PodLoad is the load that a runtime reports.
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

// FunctionLoad is the load of one gateway for a Function.
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
