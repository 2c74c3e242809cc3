package activation

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

func slice(change ...func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
	made := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "price-rouse-ipv4", Labels: map[string]string{
			discoveryv1.LabelServiceName: "price", discoveryv1.LabelManagedBy: ManagedBy, v1alpha2.LabelUUID: "1",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(PortName), Port: new(int32(FirstPort))}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.0.0.1"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}},
			{Addresses: []string{"10.0.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: new(false)}},
		},
	}
	for _, c := range change {
		c(made)
	}
	return made
}

func TestListingHoldsTheActivatorsOfAFunction(t *testing.T) {
	t.Parallel()
	listing, ok := ListingOf(slice())
	require.True(t, ok)
	require.Equal(t, Listing{
		Function: types.NamespacedName{Namespace: "shop", Name: "price"}, UID: "1", Port: FirstPort, Addresses: []string{"10.0.0.1"},
	}, listing)
}

func TestListingRejectsSlicesThatTheControllerCannotHaveWritten(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*discoveryv1.EndpointSlice){
		"a slice that Kubernetes manages": func(s *discoveryv1.EndpointSlice) {
			s.Labels[discoveryv1.LabelManagedBy] = "endpointslice-controller.k8s.io"
		},
		"without a Service":           func(s *discoveryv1.EndpointSlice) { delete(s.Labels, discoveryv1.LabelServiceName) },
		"under another name":          func(s *discoveryv1.EndpointSlice) { s.Name = "more" },
		"being deleted":               func(s *discoveryv1.EndpointSlice) { s.DeletionTimestamp = new(metav1.Now()) },
		"without a port":              func(s *discoveryv1.EndpointSlice) { s.Ports = nil },
		"with two ports":              func(s *discoveryv1.EndpointSlice) { s.Ports = append(s.Ports, s.Ports[0]) },
		"with a port below the range": func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = new(int32(22)) },
		"with a port above the range": func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = new(int32(LastPort + 1)) },
		"with a name for an address":  func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "metadata" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, ok := ListingOf(slice(change))
			require.False(t, ok)
		})
	}
}

func workload(change ...func(*corev1.Service)) *corev1.Service {
	made := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
			v1alpha2.AnnotationScaleTarget: "deployment/site", v1alpha2.AnnotationHTTPWake: v1alpha2.HTTPWakeEnabled,
		}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "site"}, ClusterIP: "10.96.0.7", Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
	for _, c := range change {
		c(made)
	}
	return made
}

func TestHTTPWakesTheWorkloadOfAServiceThatAsksForIt(t *testing.T) {
	t.Parallel()
	require.True(t, WakesWorkload(workload()))
	for name, change := range map[string]func(*corev1.Service){
		"without a target":   func(s *corev1.Service) { delete(s.Annotations, v1alpha2.AnnotationScaleTarget) },
		"without being told": func(s *corev1.Service) { delete(s.Annotations, v1alpha2.AnnotationHTTPWake) },
		"with two ports":     func(s *corev1.Service) { s.Spec.Ports = append(s.Spec.Ports, s.Spec.Ports[0]) },
		"with a port of UDP": func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP },
		"without a selector": func(s *corev1.Service) { s.Spec.Selector = nil },
		"headless":           func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone },
		"an external name":   func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName },
		"of a Function": func(s *corev1.Service) {
			s.OwnerReferences = []metav1.OwnerReference{{APIVersion: v1alpha2.GroupVersion.String(), Kind: "Function", Name: "price", Controller: new(true)}}
		},
	} {
		require.False(t, WakesWorkload(workload(change)), name)
	}
}

func TestTheFunctionOfAnObjectIsTheOneThatControlsIt(t *testing.T) {
	t.Parallel()
	ours := v1alpha2.GroupVersion.String()
	for name, tc := range map[string]struct {
		owners []metav1.OwnerReference
		want   string
	}{
		"nobody's":                     {},
		"a Function's":                 {owners: []metav1.OwnerReference{{APIVersion: ours, Kind: "Function", Name: "price", Controller: new(true)}}, want: "price"},
		"of an older version":          {owners: []metav1.OwnerReference{{APIVersion: "serverless.kyma-project.io/v1alpha1", Kind: "Function", Name: "price", Controller: new(true)}}, want: "price"},
		"another project's Function's": {owners: []metav1.OwnerReference{{APIVersion: "openfaas.com/v1", Kind: "Function", Name: "price", Controller: new(true)}}},
		"an operator's":                {owners: []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Site", Name: "price", Controller: new(true)}}},
		"owned, and not controlled":    {owners: []metav1.OwnerReference{{APIVersion: ours, Kind: "Function", Name: "price"}}},
	} {
		require.Equal(t, tc.want, FunctionOf(&corev1.Service{ObjectMeta: metav1.ObjectMeta{OwnerReferences: tc.owners}}), name)
	}
}

func TestATargetPortLeadsCallersToTheGatewaysAlone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int32{
		"rouse-8080": 8080, "rouse-1": 1, "rouse-65535": 65535,
		"rouse-0": 0, "rouse-65536": 0, "rouse-080": 0, "rouse--1": 0, "rouse-": 0, "rouse-http": 0, "http": 0,
	} {
		port, ok := PodPort(corev1.ServicePort{TargetPort: intstr.FromString(text)})
		require.Equal(t, want, port, text)
		require.Equal(t, want > 0, ok, text)
	}
	_, ok := PodPort(corev1.ServicePort{TargetPort: intstr.FromInt32(8080)})
	require.False(t, ok)
}

func TestLoadsAreDecoded(t *testing.T) {
	t.Parallel()
	pod, err := DecodePodLoad([]byte(`{"requests":12,"running":3,"viaGateway":1,"viaEventbridge":2}`))
	require.NoError(t, err)
	require.Equal(t, PodLoad{Requests: 12, Running: 3, ViaGateway: 1, ViaEventbridge: 2}, pod)

	gateway, err := DecodeGatewayLoads([]byte(`{"functions":{"shop/price":{"requests":12,"waiting":3,"running":4}}}`))
	require.NoError(t, err)
	require.Equal(t, map[types.NamespacedName]FunctionLoad{
		{Namespace: "shop", Name: "price"}: {Requests: 12, Waiting: 3, Running: 4},
	}, gateway)
}

func TestDecodingRejectsMalformedLoads(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "OK", "[]", `{"requests":-1}`, `{"running":1099511627777}`} {
		_, err := DecodePodLoad([]byte(text))
		require.Error(t, err, text)
	}
	for _, text := range []string{"", `{"functions":{"price":{"waiting":1}}}`, `{"functions":{"shop/price":{"waiting":1099511627777}}}`} {
		_, err := DecodeGatewayLoads([]byte(text))
		require.Error(t, err, text)
	}
}
