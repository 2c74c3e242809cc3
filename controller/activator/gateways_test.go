package activator

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/kube"
)

func endpoint(address string, ready, terminating *bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: []string{address}, NodeName: new("node-of-" + strings.ReplaceAll(address, ":", "-")),
		Conditions: discoveryv1.EndpointConditions{Ready: ready, Terminating: terminating},
	}
}

func slice(family discoveryv1.AddressType, endpoints ...discoveryv1.Endpoint) discoveryv1.EndpointSlice {
	return discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}, AddressType: family, Endpoints: endpoints}
}

func TestGatewaysAreListedThatAreReadyAndDoNotEnd(t *testing.T) {
	t.Parallel()
	yes, no := new(true), new(false)
	one := []gateway{{address: "10.0.0.1", node: "node-of-10.0.0.1"}}
	ours := slice(v4, endpoint("10.0.0.9", yes, no))
	ours.Labels[discoveryv1.LabelManagedBy] = activation.ManagedBy
	for name, tc := range map[string]struct {
		list     []discoveryv1.EndpointSlice
		want     map[discoveryv1.AddressType][]gateway
		families []discoveryv1.AddressType
	}{
		"none": {want: map[discoveryv1.AddressType][]gateway{}},
		"a slice without endpoints has no family": {
			list: []discoveryv1.EndpointSlice{slice(v4)}, want: map[discoveryv1.AddressType][]gateway{},
		},
		"ready": {
			list: []discoveryv1.EndpointSlice{slice(v4, endpoint("10.0.0.1", yes, no))}, families: []discoveryv1.AddressType{v4},
			want: map[discoveryv1.AddressType][]gateway{v4: one},
		},
		"without conditions it is ready": {
			list: []discoveryv1.EndpointSlice{slice(v4, endpoint("10.0.0.1", nil, nil))}, families: []discoveryv1.AddressType{v4},
			want: map[discoveryv1.AddressType][]gateway{v4: one},
		},
		"one that is not ready still has a family": {
			list: []discoveryv1.EndpointSlice{slice(v4, endpoint("10.0.0.1", no, no))}, families: []discoveryv1.AddressType{v4},
			want: map[discoveryv1.AddressType][]gateway{},
		},
		"one that ends": {
			list: []discoveryv1.EndpointSlice{slice(v4, endpoint("10.0.0.1", yes, yes))}, families: []discoveryv1.AddressType{v4},
			want: map[discoveryv1.AddressType][]gateway{},
		},
		"one that does not answer": {
			list: []discoveryv1.EndpointSlice{slice(v4, endpoint("10.6.6.6", yes, no))}, families: []discoveryv1.AddressType{v4},
			want: map[discoveryv1.AddressType][]gateway{},
		},
		"two families, and one gateway in two slices": {
			list: []discoveryv1.EndpointSlice{
				slice(v6, endpoint("fd00::1", yes, no)), slice(v4, endpoint("10.0.0.1", yes, no)), slice(v4, endpoint("10.0.0.1", yes, no)),
			},
			families: []discoveryv1.AddressType{v4, v6},
			want:     map[discoveryv1.AddressType][]gateway{v4: one, v6: {{address: "fd00::1", node: "node-of-fd00--1"}}},
		},
		"names are no addresses": {
			list: []discoveryv1.EndpointSlice{slice(discoveryv1.AddressTypeFQDN, endpoint("gateway.example.com", yes, no))},
			want: map[discoveryv1.AddressType][]gateway{},
		},
		"what lists activators lists no gateways": {list: []discoveryv1.EndpointSlice{ours}, want: map[discoveryv1.AddressType][]gateway{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := gatewaysOf(tc.list, func(address string) bool { return address == "10.6.6.6" })
			require.Equal(t, tc.want, found.ready)
			require.Equal(t, tc.families, found.families)
		})
	}
}

func TestAFunctionIsAwakeWhileAPodIsReady(t *testing.T) {
	t.Parallel()
	yes, no := new(true), new(false)
	activators := slice(v4, endpoint("10.0.0.9", yes, no))
	activators.Labels[discoveryv1.LabelManagedBy] = activation.ManagedBy
	for name, tc := range map[string]struct {
		list []discoveryv1.EndpointSlice
		want bool
	}{
		"no slice":                 {},
		"no pod":                   {list: []discoveryv1.EndpointSlice{slice(v4)}},
		"a pod is ready":           {list: []discoveryv1.EndpointSlice{slice(v4), slice(v4, endpoint("10.0.0.1", yes, no))}, want: true},
		"a pod is not ready":       {list: []discoveryv1.EndpointSlice{slice(v4, endpoint("10.0.0.1", no, no))}},
		"the last pod ends":        {list: []discoveryv1.EndpointSlice{slice(v4, endpoint("10.0.0.1", yes, yes))}},
		"an activator is no pod":   {list: []discoveryv1.EndpointSlice{activators}},
		"one of two pods is ready": {list: []discoveryv1.EndpointSlice{slice(v4, endpoint("10.0.0.1", no, no), endpoint("10.0.0.2", yes, no))}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, isAwake(tc.list))
		})
	}
}

func TestCachedSlicesOfOthersSayWhoIsReadyAndNoMore(t *testing.T) {
	t.Parallel()
	full := slice(discoveryv1.AddressTypeIPv4, endpoint("10.0.0.1", new(true), nil))
	full.Annotations = map[string]string{"note": "long"}
	full.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kube-controller-manager"}}
	full.Ports = []discoveryv1.EndpointPort{{Port: new(int32(8080))}}
	full.Endpoints[0].Hints = &discoveryv1.EndpointHints{}
	kept, err := withoutDetails(full.DeepCopy())
	require.NoError(t, err)
	want := slice(discoveryv1.AddressTypeIPv4, endpoint("10.0.0.1", new(true), nil))
	require.Equal(t, &want, kept)

	full.Labels[discoveryv1.LabelManagedBy] = activation.ManagedBy
	kept, err = withoutDetails(full.DeepCopy())
	require.NoError(t, err)
	full.Annotations = nil
	require.Equal(t, &full, kept, "of ours everything but annotations")
}

func TestEachGatewayIsAskedAtOneAddress(t *testing.T) {
	t.Parallel()
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	service := types.NamespacedName{Namespace: "rouse-system", Name: "rouse-gateway"}
	of := func(name, service string, s discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
		s.Namespace, s.Name, s.Labels = "rouse-system", name, map[string]string{discoveryv1.LabelServiceName: service}
		return &s
	}
	yes, no := new(true), new(false)
	four := of("4", "rouse-gateway", slice(v4, endpoint("10.0.0.2", yes, no), endpoint("10.0.0.1", yes, no), endpoint("10.0.0.3", no, no)))
	six := of("6", "rouse-gateway", slice(v6, endpoint("fd00::1", yes, no), endpoint("fd00::2", yes, no)))
	other := of("other", "rouse-scaler", slice(v4, endpoint("10.0.0.9", yes, no)))
	for _, tc := range []struct {
		there []client.Object
		want  []string
	}{
		{[]client.Object{four, six, other}, []string{"10.0.0.1", "10.0.0.2"}},
		{[]client.Object{six, other}, []string{"fd00::1", "fd00::2"}},
		{[]client.Object{other}, nil},
	} {
		reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.there...).Build()
		addresses, err := Gateways(t.Context(), reader, service)
		require.NoError(t, err)
		require.Equal(t, tc.want, addresses)
	}
}
