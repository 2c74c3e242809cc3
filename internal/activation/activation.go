package activation

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

const (
	// ManagedBy is the value of the label endpointslice.kubernetes.io/managed-by on slices that list activators.
	// Kubernetes' own EndpointSlice controller ignores slices with this value, and so do readers that look for pods.
	ManagedBy = "gateway.rouse.run"
	// AliasManagedBy is the value of that label on the slices of the publisher's alias, which list bridges.
	AliasManagedBy = "alias.rouse.run"
	// ServicePort is the only port of a Function's Service.
	ServicePort = 80
	// OnlyPortOfService stands for the port of a Service that has one, where its endpoints are watched.
	OnlyPortOfService = 0
	// PortName is the name of the only port of a Function's Service.
	PortName = "http"
	// PodPortPrefix is followed by the number of a port of the pods in the targetPort of a Service whose callers always pass
	// the gateways. No container has a port of that name, so that Kubernetes lists the pods without it.
	PodPortPrefix = "rouse-"
	// FirstPort and LastPort bound the ports of activators, one for each Function. The range lies below Linux's range
	// of ephemeral ports.
	FirstPort = 10000
	// LastPort is the highest port of an activator.
	LastPort = 32767
)

// Listing holds the addresses of a Function's activators, as an EndpointSlice of one address family lists them.
type Listing struct {
	// Function is also the name of its Service, which is all that a workload has that is no Function.
	Function types.NamespacedName
	// UID is the Function's UID, or that of the workload's Service.
	UID types.UID
	// Port is the activators' port for this Function.
	Port int32
	// Addresses are the activators' addresses. The list is empty while the slices list only pods.
	Addresses []string
}

// SliceName is the name of the slice that lists the activators of a Function.
func SliceName(function string, family discoveryv1.AddressType) string {
	return function + "-rouse-" + strings.ToLower(string(family))
}

// IsOurs reports whether a slice lists activators rather than pods.
func IsOurs(slice *discoveryv1.EndpointSlice) bool {
	return slice.Labels[discoveryv1.LabelManagedBy] == ManagedBy
}

// IsApplied reports whether the controller applies a slice.
func IsApplied(slice *discoveryv1.EndpointSlice) bool {
	return IsOurs(slice) || slice.Labels[discoveryv1.LabelManagedBy] == AliasManagedBy
}

// ListingOf returns the listing that a slice contains. It returns false for a slice without activators, for a slice
// that is being deleted, and for content that the controller cannot have written.
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

// readyAddresses returns the addresses of the ready endpoints. It returns false when an address is not an IP address.
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

// portOf returns the only port of a slice of activators. It is named like that of the Service.
func portOf(slice *discoveryv1.EndpointSlice) (int32, bool) {
	if len(slice.Ports) != 1 {
		return 0, false
	}
	port := ptr.Deref(slice.Ports[0].Port, 0)
	return port, port >= FirstPort && port <= LastPort
}

// FunctionOf returns the name of the Function that controls an object, such as a Service or a Deployment; empty where none does. Other
// projects have a kind of that name, too.
func FunctionOf(object metav1.Object) string {
	owner := metav1.GetControllerOf(object)
	if owner == nil || owner.Kind != "Function" || !strings.HasPrefix(owner.APIVersion, v1alpha2.GroupVersion.Group+"/") {
		return ""
	}
	return owner.Name
}

// WakesWorkload reports whether HTTP requests to a Service, of no Function, wake the workload that the Service names.
func WakesWorkload(service *corev1.Service) bool {
	_, names := service.Annotations[v1alpha2.AnnotationScaleTarget]
	_, one := OnlyPort(service)
	return names && one && service.Annotations[v1alpha2.AnnotationHTTPWake] == v1alpha2.HTTPWakeEnabled &&
		FunctionOf(service) == "" && len(service.Spec.Selector) > 0 &&
		service.Spec.Type != corev1.ServiceTypeExternalName && service.Spec.ClusterIP != corev1.ClusterIPNone
}

// OnlyPort returns the port of a Service that has one, of TCP.
func OnlyPort(service *corev1.Service) (corev1.ServicePort, bool) {
	if len(service.Spec.Ports) != 1 || service.Spec.Ports[0].Protocol == corev1.ProtocolUDP || service.Spec.Ports[0].Protocol == corev1.ProtocolSCTP {
		return corev1.ServicePort{}, false
	}
	return service.Spec.Ports[0], true
}

// PodPort returns the port at which pods serve a port of a Service whose callers always pass the gateways: its targetPort is
// PodPortPrefix and that number.
func PodPort(port corev1.ServicePort) (int32, bool) {
	digits, named := strings.CutPrefix(port.TargetPort.StrVal, PodPortPrefix)
	if !named {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || number == 0 || digits[0] == '0' {
		return 0, false
	}
	return int32(number), true
}

const (
	// HeaderVia marks a call that another component counts as well. Gateways remove it from requests of callers.
	HeaderVia = "Rouse-Via"
	// ViaGateway is the value of HeaderVia on calls of activators.
	ViaGateway = "gateway"
	// ViaEventbridge is the value of HeaderVia on deliveries of events.
	ViaEventbridge = "eventbridge"
	// HeaderFunction carries the Function's UID in an activator's response to GET /healthz.
	HeaderFunction = "Rouse-Function"
	// HeaderRefused carries the reason, such as RefusedTimeout, in an error response that an activator sends itself.
	HeaderRefused = "Rouse-Refused"
	// RefusedTimeout means that no pod accepted the request in time. No pod has received it.
	RefusedTimeout = "timeout"
	// RefusedOverload means that too many requests are waiting. No pod has received this one.
	RefusedOverload = "overload"
	// HeaderOlder carries why the newest version of a Function does not answer, in the response of an older one. Local mode sets it.
	HeaderOlder = "Rouse-Older-Version"
	// LoadPath is the path at which a runtime reports its load as PodLoad.
	LoadPath = "/.well-known/rouse/load"
	// GatewayLoadPath is the path at which a gateway streams its load, one GatewayLoads for each line.
	GatewayLoadPath = "/load"
)

// most is the largest count that is accepted. Sums of such counts stay exact in JSON and in float64.
const most = 1 << 40

// PodLoad is the load that a runtime reports.
type PodLoad struct {
	// Requests counts the requests since the pod started, without those to reserved paths.
	Requests uint64 `json:"requests"`
	// Running counts the requests in progress from all senders.
	Running uint64 `json:"running"`
	// ViaGateway and ViaEventbridge count the requests of Running that carried HeaderVia.
	ViaGateway     uint64 `json:"viaGateway"`
	ViaEventbridge uint64 `json:"viaEventbridge"`
}

// DecodePodLoad decodes the load report of a runtime.
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
	// Requests counts the requests accepted since the gateway started. Rejected requests count as well, so that they
	// wake the Function.
	Requests uint64 `json:"requests"`
	// Waiting counts the requests that wait for a pod to accept connections.
	Waiting uint64 `json:"waiting"`
	// Running counts the requests that were forwarded and have not completed.
	Running uint64 `json:"running"`
}

// GatewayLoads is one line of a gateway's stream: the first contains all Functions, later ones only those that changed.
type GatewayLoads struct {
	// Functions are keyed by namespace/name.
	Functions map[string]FunctionLoad `json:"functions"`
}

// DecodeGatewayLoads decodes one line of a gateway's stream.
func DecodeGatewayLoads(line []byte) (map[types.NamespacedName]FunctionLoad, error) {
	var loads GatewayLoads
	if err := json.Unmarshal(line, &loads); err != nil {
		return nil, fmt.Errorf("decode the load of a gateway: %w", err)
	}
	decoded := make(map[types.NamespacedName]FunctionLoad, len(loads.Functions))
	for key, load := range loads.Functions {
		namespace, name, ok := strings.Cut(key, "/")
		if !ok || max(load.Requests, load.Waiting, load.Running) > most {
			return nil, fmt.Errorf("decode the load of a gateway: the entry of %q is not the load of a Function", key)
		}
		decoded[types.NamespacedName{Namespace: namespace, Name: name}] = load
	}
	return decoded, nil
}

// ReplicasMetric is the external metric of the replicas that all work of a Function or workload wants, at what each trigger wants a replica
// to carry. HPAs have it in a cluster without KEDA, with a target of 1.
const ReplicasMetric = "rouse-replicas"

// ScalesByEvents reports whether an HPA has that metric.
func ScalesByEvents(hpa *autoscalingv2.HorizontalPodAutoscaler) bool {
	return slices.ContainsFunc(hpa.Spec.Metrics, func(metric autoscalingv2.MetricSpec) bool {
		return metric.External != nil && metric.External.Metric.Name == ReplicasMetric
	})
}
