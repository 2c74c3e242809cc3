package activation

import (
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

// Listing is where the activators of a Function are, as an EndpointSlice of one address family tells.
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
