package watch

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/routing"
)

// service returns the Service of a Function; its port 80 maps to the pods' 8080.
func service(change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "price", OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "serverless.kyma-project.io/v1alpha2", Kind: "Function", Name: "price", UID: "1", Controller: new(true),
		}}},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func slice(endpoints ...discoveryv1.Endpoint) discoveryv1.EndpointSlice {
	return discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "price-1", Labels: map[string]string{discoveryv1.LabelServiceName: "price"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{
			{Name: new("metrics"), Port: new(int32(9090)), Protocol: new(corev1.ProtocolTCP)},
			{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)},
		},
		Endpoints: endpoints,
	}
}

func pod(address string, ready, terminating *bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: ready, Terminating: terminating},
	}
}

func TestEndpointsAreMappedFromSlices(t *testing.T) {
	t.Parallel()
	yes, no := new(true), new(false)
	ready := routing.Endpoint{Address: "10.0.0.1:8080", Ready: true, Function: true}
	behind := service(func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromString("rouse-8081") })
	withoutPort := func(s discoveryv1.EndpointSlice) discoveryv1.EndpointSlice {
		s.Ports = nil
		return s
	}
	for name, tc := range map[string]struct {
		service *corev1.Service
		slices  []discoveryv1.EndpointSlice
		port    int32
		foreign []string // addresses of pods of other namespaces
		want    []routing.Endpoint
	}{
		"ready":                               {slices: []discoveryv1.EndpointSlice{slice(pod("10.0.0.1", yes, no))}, want: []routing.Endpoint{ready}},
		"without conditions it is ready":      {slices: []discoveryv1.EndpointSlice{slice(pod("10.0.0.1", nil, nil))}, want: []routing.Endpoint{ready}},
		"an address that is not ready counts": {slices: []discoveryv1.EndpointSlice{slice(pod("10.0.0.1", no, no))}, want: []routing.Endpoint{{Address: "10.0.0.1:8080", Function: true}}},
		"terminating": {
			slices: []discoveryv1.EndpointSlice{slice(pod("10.0.0.1", no, yes))},
			want:   []routing.Endpoint{{Address: "10.0.0.1:8080", Terminating: true, Function: true}},
		},
		"sorted over all slices": {
			slices: []discoveryv1.EndpointSlice{slice(pod("10.0.0.2", yes, no)), slice(pod("10.0.0.1", yes, no))},
			want:   []routing.Endpoint{ready, {Address: "10.0.0.2:8080", Ready: true, Function: true}},
		},
		"the ready endpoint of two slices takes precedence": {
			slices: []discoveryv1.EndpointSlice{slice(pod("10.0.0.1", yes, no)), slice(pod("10.0.0.1", no, no))},
			want:   []routing.Endpoint{ready},
		},
		"an address of another namespace's pod is left out": {
			slices: []discoveryv1.EndpointSlice{slice(pod("10.0.0.1", yes, no), pod("10.0.9.9", yes, no))}, foreign: []string{"10.0.9.9"},
			want: []routing.Endpoint{ready},
		},
		"another namespace's pod is left out in a slice of its own": {
			slices: []discoveryv1.EndpointSlice{slice(pod("10.0.0.1", yes, no)), slice(pod("10.0.9.9", nil, nil))}, foreign: []string{"10.0.9.9"},
			want: []routing.Endpoint{ready},
		},
		"a malformed address is left out": {slices: []discoveryv1.EndpointSlice{slice(pod("price", yes, no), pod("10.0.0.1", yes, no))}, want: []routing.Endpoint{ready}},
		"another namespace's pod is left out of the Service of another owner": {
			service: service(func(s *corev1.Service) { s.OwnerReferences = nil }),
			slices:  []discoveryv1.EndpointSlice{slice(pod("10.0.9.9", yes, no))}, foreign: []string{"10.0.9.9"},
		},
		"a port that the Service lacks": {slices: []discoveryv1.EndpointSlice{slice(pod("10.0.0.1", yes, no))}, port: 81},
		"a port that the pods lack": {
			service: service(func(s *corev1.Service) { s.Spec.Ports[0].Name = "grpc" }),
			slices:  []discoveryv1.EndpointSlice{slice(pod("10.0.0.1", yes, no))},
		},
		"an ExternalName Service": {
			service: service(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }),
			slices:  []discoveryv1.EndpointSlice{slice(pod("10.0.0.1", yes, no))},
		},
		"activators are left out": {
			slices: []discoveryv1.EndpointSlice{*listed("price", 0, activation.FirstPort, "10.0.1.1"), slice(pod("10.0.0.1", yes, no))},
			want:   []routing.Endpoint{ready},
		},
		"no pods": {slices: []discoveryv1.EndpointSlice{slice()}},
		"the Service of another owner": {
			service: service(func(s *corev1.Service) { s.OwnerReferences = nil }),
			slices:  []discoveryv1.EndpointSlice{slice(pod("10.0.0.1", no, no))},
			want:    []routing.Endpoint{{Address: "10.0.0.1:8080"}},
		},
		"the only port": {slices: []discoveryv1.EndpointSlice{slice(pod("10.0.0.1", yes, no))}, port: -1, want: []routing.Endpoint{ready}},
		"the only port of several": {
			service: service(func(s *corev1.Service) {
				s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "metrics", Port: 81})
			}),
			slices: []discoveryv1.EndpointSlice{slice(pod("10.0.0.1", yes, no))}, port: -1,
		},
		"pods that are reached through gateways alone": {
			service: behind, slices: []discoveryv1.EndpointSlice{withoutPort(slice(pod("10.0.0.1", yes, no))), *listed("price", 0, activation.FirstPort, "10.0.1.1")},
			want: []routing.Endpoint{{Address: "10.0.0.1:8081", Ready: true, Function: true}},
		},
		"another namespace's pod is left out behind gateways": {
			service: behind, slices: []discoveryv1.EndpointSlice{withoutPort(slice(pod("10.0.9.9", yes, no)))}, foreign: []string{"10.0.9.9"},
		},
		"a Function of another group": {
			service: service(func(s *corev1.Service) { s.OwnerReferences[0].APIVersion = "example.com/v1" }),
			slices:  []discoveryv1.EndpointSlice{slice(pod("10.0.0.1", no, no))},
			want:    []routing.Endpoint{{Address: "10.0.0.1:8080"}},
		},
		"the first IP family": {
			service: service(func(s *corev1.Service) {
				s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
			}),
			slices: []discoveryv1.EndpointSlice{slice(pod("10.0.0.1", yes, no)), func() discoveryv1.EndpointSlice {
				s := slice(pod("fd00::1", yes, no))
				s.AddressType = discoveryv1.AddressTypeIPv6
				return s
			}()},
			want: []routing.Endpoint{{Address: "[fd00::1]:8080", Ready: true, Function: true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.service == nil {
				tc.service = service()
			}
			switch tc.port {
			case 0:
				tc.port = 80
			case -1:
				tc.port = activation.OnlyPortOfService
			}
			isPod := func(address netip.Addr) bool { return !slices.Contains(tc.foreign, address.String()) }
			require.Equal(t, tc.want, endpointsOf(tc.service, tc.slices, tc.port, isPod))
		})
	}
}

func TestPersistentForeignAddressIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		log := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
		o := &outsiders{log: log.WithValues("service", "shop/price")}
		defer o.stop()
		pods := map[string]bool{"10.0.0.1": true}
		see := func(addresses ...string) {
			require.NoError(t, o.read(func(a netip.Addr) bool { return pods[a.String()] }, func(isPod func(netip.Addr) bool) error {
				for _, each := range addresses {
					require.Equal(t, pods[each], isPod(netip.MustParseAddr(each)))
				}
				return nil
			}))
		}
		after := func(wait time.Duration) []string {
			time.Sleep(wait)
			synctest.Wait()
			return lines
		}
		see("10.0.0.1", "10.0.0.2")
		require.Empty(t, after(outsiderPatience-1))
		pods["10.0.0.2"] = true
		see("10.0.0.1", "10.0.0.2")
		require.Empty(t, after(time.Hour), "its pod was read later than the slice")

		see("10.0.0.1", "192.0.2.1", "192.0.2.2")
		require.Equal(t, []string{`"level"=0 "msg"="addresses of a Service belong to no pod of its namespace and receive no requests" ` +
			`"service"="shop/price" "address"="192.0.2.1" "addresses"=2`}, after(outsiderPatience))
		for range 1000 { // repeated writes of the slices
			see("192.0.2.1")
			require.Len(t, after(outsiderPause/2000), 1)
			see("10.0.0.1")
		}
		see("192.0.2.1")
		require.Len(t, after(time.Hour), 2)
		o.stop()
		require.Len(t, after(time.Hour), 2)
	})
}
