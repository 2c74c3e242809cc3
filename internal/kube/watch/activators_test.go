package watch

import (
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/activation"
)

// listed is the slice of a Function's activators, created in that second.
func listed(function string, second int64, port int32, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: activation.SliceName(function, discoveryv1.AddressTypeIPv4), CreationTimestamp: metav1.Unix(second, 0),
			Labels: map[string]string{
				discoveryv1.LabelServiceName: function, discoveryv1.LabelManagedBy: activation.ManagedBy, v1alpha2.LabelUUID: "uid-" + function,
			},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(activation.PortName), Port: &port}},
	}
	for _, address := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}
	return s
}

// in moves a slice to another namespace, and v6 to another address family.
func in(namespace string, s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	s.Namespace = namespace
	return s
}

func v6(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	s.AddressType = discoveryv1.AddressTypeIPv6
	s.Name = activation.SliceName(s.Labels[discoveryv1.LabelServiceName], s.AddressType)
	return s
}
