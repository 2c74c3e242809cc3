package activator

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	discoveryv1ac "k8s.io/client-go/applyconfigurations/discovery/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/kube"
)

const kindService = "Service"

// sliceOf is what one family's slice of a Function should be. The owner reference does not block the deletion of the
// Service, for which the controller would need rights.
func sliceOf(s *scope, family discoveryv1.AddressType, port int32, listed []gateway) (*unstructured.Unstructured, error) {
	config := discoveryv1ac.EndpointSlice(activation.SliceName(s.key.Name, family), s.key.Namespace).
		WithLabels(map[string]string{
			discoveryv1.LabelServiceName: s.key.Name,
			discoveryv1.LabelManagedBy:   activation.ManagedBy,
			v1alpha2.LabelUUID:           string(s.fn.UID),
		}).
		WithOwnerReferences(metav1ac.OwnerReference().
			WithAPIVersion(corev1.SchemeGroupVersion.String()).
			WithKind(kindService).
			WithName(s.service.GetName()).
			WithUID(s.service.GetUID()).
			WithController(true)).
		WithAddressType(family).
		WithPorts(discoveryv1ac.EndpointPort().WithName(activation.PortName).WithPort(port).WithProtocol(corev1.ProtocolTCP))
	for _, each := range listed {
		endpoint := discoveryv1ac.Endpoint().WithAddresses(each.address).
			WithConditions(discoveryv1ac.EndpointConditions().WithReady(true).WithServing(true).WithTerminating(false))
		if each.node != "" {
			endpoint.WithNodeName(each.node)
		}
		config.WithEndpoints(endpoint)
	}
	object, err := kube.ToUnstructured(config)
	if err != nil {
		return nil, err
	}
	if len(listed) == 0 {
		object.Object["endpoints"] = []any{} // ours, too: nobody else adds any
	}
	return object, nil
}

// keeps reports whether a slice of ours is one that the Function should have. What is wrong in it is repaired.
func (s *scope) keeps(slice *discoveryv1.EndpointSlice, families []discoveryv1.AddressType) bool {
	return s.wanted && slice.Name == activation.SliceName(s.key.Name, slice.AddressType) &&
		isControlledBy(slice, s.service.GetUID()) && slices.Contains(families, slice.AddressType)
}

// isForged reports whether a slice was never written by this controller: it does not belong to the Service that it names.
func isForged(slice *discoveryv1.EndpointSlice) bool {
	owner := metav1.GetControllerOf(slice)
	return owner == nil || owner.Kind != kindService || owner.Name != slice.Labels[discoveryv1.LabelServiceName] ||
		slice.Name != activation.SliceName(owner.Name, slice.AddressType)
}

func isControlledBy(slice *discoveryv1.EndpointSlice, service types.UID) bool {
	owner := metav1.GetControllerOf(slice)
	return owner != nil && owner.UID == service
}

// known are the addresses that a slice lists already for this Function at this port.
func known(slice *discoveryv1.EndpointSlice, function types.UID, port int32) map[string]bool {
	if slice == nil {
		return nil
	}
	listing, ok := activation.ListingOf(slice)
	if !ok || listing.UID != function || listing.Port != port {
		return nil
	}
	addresses := make(map[string]bool, len(listing.Addresses))
	for _, address := range listing.Addresses {
		addresses[address] = true
	}
	return addresses
}
