package watch

import (
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/routing"
)

// endpointsOf finds where a port of a Service is served. Slices name ports as the Service does; the number
// in them is the pods' own. Slices of activators are left out, and so are addresses of which isPod says no: anybody who may write
// slices can name any. A Service of two IP families is reached by its first.
// One that is another name for a host, which anybody may write, is served nowhere.
func endpointsOf(
	service *corev1.Service, items []discoveryv1.EndpointSlice, port int32, isPod func(netip.Addr) bool,
) []routing.Endpoint {
	portName, found := portName(service, port)
	if !found || service.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	function := ownedByFunction(service)
	byAddress := map[string]routing.Endpoint{}
	for i := range items {
		slice := &items[i]
		number, served := portNumber(slice, portName)
		if !served || !listsPods(slice) || !ofFamily(service, slice) {
			continue
		}
		for j := range slice.Endpoints {
			current, ok := endpointOf(&slice.Endpoints[j], number, isPod)
			if !ok {
				continue
			}
			current.Function = function
			if other, twice := byAddress[current.Address]; !twice || !other.Ready { // an endpoint that moves is in two slices
				byAddress[current.Address] = current
			}
		}
	}
	return slices.SortedFunc(maps.Values(byAddress), func(a, b routing.Endpoint) int { return strings.Compare(a.Address, b.Address) })
}

// endpointOf is false for an endpoint that is no pod. Of its addresses the first counts, as for Kubernetes.
func endpointOf(endpoint *discoveryv1.Endpoint, port int32, isPod func(netip.Addr) bool) (routing.Endpoint, bool) {
	if len(endpoint.Addresses) == 0 {
		return routing.Endpoint{}, false
	}
	ip, err := netip.ParseAddr(endpoint.Addresses[0])
	if err != nil || !isPod(ip.Unmap()) {
		return routing.Endpoint{}, false
	}
	return routing.Endpoint{
		Address:     net.JoinHostPort(ip.Unmap().String(), strconv.Itoa(int(port))),
		Ready:       ptr.Deref(endpoint.Conditions.Ready, true),
		Terminating: ptr.Deref(endpoint.Conditions.Terminating, false),
	}, true
}

func portName(service *corev1.Service, port int32) (string, bool) {
	for _, p := range service.Spec.Ports {
		if p.Port == port && (p.Protocol == "" || p.Protocol == corev1.ProtocolTCP) {
			return p.Name, true
		}
	}
	return "", false
}

func portNumber(slice *discoveryv1.EndpointSlice, name string) (int32, bool) {
	for _, p := range slice.Ports {
		if ptr.Deref(p.Name, "") == name && p.Port != nil && ptr.Deref(p.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP {
			return *p.Port, true
		}
	}
	return 0, false
}

// listsPods is false for a slice of activators, and for one that is being deleted.
func listsPods(slice *discoveryv1.EndpointSlice) bool {
	return !activation.IsOurs(slice) && slice.DeletionTimestamp.IsZero()
}

func ofFamily(service *corev1.Service, slice *discoveryv1.EndpointSlice) bool {
	if slice.AddressType == discoveryv1.AddressTypeFQDN {
		return false
	}
	return len(service.Spec.IPFamilies) == 0 || string(slice.AddressType) == string(service.Spec.IPFamilies[0])
}

// ownedByFunction reports whether the Service's pods are those of a Function, whose server listens as soon as
// it can answer.
func ownedByFunction(service *corev1.Service) bool {
	owner := metav1.GetControllerOf(service)
	if owner == nil || owner.Kind != "Function" {
		return false
	}
	version, err := schema.ParseGroupVersion(owner.APIVersion)
	return err == nil && version.Group == serverlessv1alpha2.GroupVersion.Group
}
