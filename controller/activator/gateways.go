package activator

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/activation"
)

const (
	// GatewayPort is where a gateway tells its load, that it works, and which APIRules it has loaded.
	GatewayPort = 9091
	// maxGateways bounds the gateways of a family that are listed.
	maxGateways = 100
)

// gateway is one of them, by an address.
type gateway struct {
	address string
	node    string // where it runs, empty when that is not known
}

// gateways are those that may be listed.
type gateways struct {
	// families are those of all gateways, whatever their state.
	families []discoveryv1.AddressType
	ready    map[discoveryv1.AddressType][]gateway
}

// gatewaysOf finds the gateways that are ready and do not end, in the slices of their Service.
func gatewaysOf(list []discoveryv1.EndpointSlice, lost func(address string) bool) gateways {
	found := gateways{ready: map[discoveryv1.AddressType][]gateway{}}
	for i := range list {
		slice := &list[i]
		if activation.IsOurs(slice) || len(slice.Endpoints) == 0 || slice.AddressType == discoveryv1.AddressTypeFQDN {
			continue
		}
		found.families = append(found.families, slice.AddressType)
		for j := range slice.Endpoints {
			if endpoint := &slice.Endpoints[j]; isReady(endpoint) && !lost(endpoint.Addresses[0]) {
				found.ready[slice.AddressType] = append(found.ready[slice.AddressType],
					gateway{address: endpoint.Addresses[0], node: ptr.Deref(endpoint.NodeName, "")})
			}
		}
	}
	slices.Sort(found.families)
	found.families = slices.Compact(found.families)
	for family, ready := range found.ready {
		slices.SortFunc(ready, func(a, b gateway) int { return cmp.Compare(a.address, b.address) })
		ready = slices.CompactFunc(ready, func(a, b gateway) bool { return a.address == b.address }) // one that moves is in two slices
		found.ready[family] = ready[:min(len(ready), maxGateways)]
	}
	return found
}

// isReady reports whether an endpoint serves and goes on to.
func isReady(endpoint *discoveryv1.Endpoint) bool {
	return len(endpoint.Addresses) > 0 && ptr.Deref(endpoint.Conditions.Ready, true) && !ptr.Deref(endpoint.Conditions.Terminating, false)
}

// isAwake reports whether a pod of a Function is ready, by the slices of its Service.
func isAwake(list []discoveryv1.EndpointSlice) bool {
	for i := range list {
		slice := &list[i]
		if activation.IsOurs(slice) {
			continue
		}
		for j := range slice.Endpoints {
			if isReady(&slice.Endpoints[j]) {
				return true
			}
		}
	}
	return false
}

// slicesOf are those of a Service. They are the cache's: do not change them.
func slicesOf(ctx context.Context, reader client.Reader, service types.NamespacedName) ([]discoveryv1.EndpointSlice, error) {
	list := &discoveryv1.EndpointSliceList{}
	err := reader.List(ctx, list, client.InNamespace(service.Namespace), client.MatchingFields{serviceIndex: service.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list the EndpointSlices of Service %q: %w", service, err)
	}
	return list.Items, nil
}

// Gateways are the addresses of the gateways that are ready, one of each, for those who ask all of them.
func Gateways(ctx context.Context, reader client.Reader, service types.NamespacedName) ([]string, error) {
	list := &discoveryv1.EndpointSliceList{}
	err := reader.List(ctx, list, client.InNamespace(service.Namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: service.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list the EndpointSlices of Service %q: %w", service, err)
	}
	found := gatewaysOf(list.Items, func(string) bool { return false })
	for _, family := range found.families {
		if ready := found.ready[family]; len(ready) > 0 { // one with two families has two addresses
			addresses := make([]string, len(ready))
			for i := range ready {
				addresses[i] = ready[i].address
			}
			return addresses, nil
		}
	}
	return nil, nil
}
