package apirule

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

func TestServiceInfoHoldsThePropertiesThatMatterToAPIRules(t *testing.T) {
	t.Parallel()
	plain := ServiceInfo{Selects: true, Address: "10.0.0.1", Ports: []int32{80}}
	for name, tc := range map[string]struct {
		change func(*corev1.Service)
		want   func(*ServiceInfo)
	}{
		"a plain Service": {func(*corev1.Service) {}, func(*ServiceInfo) {}},
		"a Function's Service": {
			ownedBy("Function", "price", functions), func(s *ServiceInfo) { s.Wakes = true },
		},
		"another Service of a Function": {ownedBy("Function", "other", functions), func(*ServiceInfo) {}},
		"the Service of a Function of another group": {
			ownedBy("Function", "price", functions+".example.com"), func(*ServiceInfo) {},
		},
		"the Service of a workload": {ownedBy("StatefulSet", "price", "apps"), func(*ServiceInfo) {}},
		"a Service of a workload that HTTP wakes": {
			func(s *corev1.Service) {
				s.Annotations = map[string]string{v1alpha2.AnnotationScaleTarget: "deployment/site", v1alpha2.AnnotationHTTPWake: v1alpha2.HTTPWakeEnabled}
			}, func(s *ServiceInfo) { s.Wakes = true },
		},
		"a Service of such a workload that an operator made": {
			func(s *corev1.Service) {
				ownedBy("Shop", "price", "shops.example.com")(s)
				s.Annotations = map[string]string{v1alpha2.AnnotationScaleTarget: "deployment/site", v1alpha2.AnnotationHTTPWake: v1alpha2.HTTPWakeEnabled}
			}, func(s *ServiceInfo) { s.Wakes = true },
		},
		"a Service owned but not controlled by a Function": {
			func(s *corev1.Service) {
				ownedBy("Function", "price", functions)(s)
				s.OwnerReferences[0].Controller = nil
			}, func(*ServiceInfo) {},
		},
		"a Service without a selector": {func(s *corev1.Service) { s.Spec.Selector = nil }, func(s *ServiceInfo) { s.Selects = false }},
		"an external name with a selector": {
			func(s *corev1.Service) { s.Spec.Type, s.Spec.ClusterIP = corev1.ServiceTypeExternalName, "" },
			func(s *ServiceInfo) { s.Selects, s.Address = false, "" },
		},
		"a headless Service": {func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }, func(s *ServiceInfo) { s.Address = "" }},
		"TCP ports among others": {
			func(s *corev1.Service) {
				s.Spec.Ports = []corev1.ServicePort{{Port: 53, Protocol: corev1.ProtocolUDP}, {Port: 53, Protocol: corev1.ProtocolTCP}, {Port: 81}}
			}, func(s *ServiceInfo) { s.Ports = []int32{53, 81} },
		},
		"a Service that admits namespaces": {
			func(s *corev1.Service) { s.Annotations = map[string]string{AnnotationFrom: " front, back ,,"} },
			func(s *ServiceInfo) { s.From = []string{"front", "back"} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := plain
			tc.want(&want)
			require.Equal(t, want, ServiceInfoOf(service(tc.change)))
		})
	}
}

func TestFingerprintDistinguishesExposures(t *testing.T) {
	t.Parallel()
	fingerprint := func(cluster *Objects, changes ...func(*v2.APIRule)) string {
		text, err := Decide([]*v2.APIRule{rule("price", 1, "price.example.com", changes...)}, cluster)[0].Fingerprint()
		require.NoError(t, err)
		require.Len(t, text, 32)
		return text
	}
	plain := fingerprint(surroundings())
	require.Equal(t, plain, fingerprint(surroundings()))
	require.Equal(t, plain, fingerprint(surroundings(), func(r *v2.APIRule) {
		r.Annotations, r.Status = map[string]string{"seen": "by caches that keep it"}, v2.APIRuleStatus{State: v2.StateReady}
	}), "only fields that affect serving count")
	seen := map[string]string{plain: "the plain one"}
	for name, other := range map[string]string{
		"the host":      fingerprint(surroundings(), func(r *v2.APIRule) { r.Spec.Hosts[0] = "other" }),
		"a header":      fingerprint(surroundings(), func(r *v2.APIRule) { r.Spec.Rules[0].Request = &v2.Request{Headers: map[string]string{"a": "b"}} }),
		"the timeout":   fingerprint(surroundings(), func(r *v2.APIRule) { r.Spec.Timeout = new(v2.Timeout(1)) }),
		"CORS":          fingerprint(surroundings(), func(r *v2.APIRule) { r.Spec.CORSPolicy = &v2.CORSPolicy{} }),
		"the address":   fingerprint(surroundings(func(c *Objects) { s := c.Services[price]; s.Address = "10.0.0.9"; c.Services[price] = s })),
		"a closed rule": fingerprint(surroundings(func(c *Objects) { delete(c.Services, price) })),
		"a Function":    fingerprint(surroundings(func(c *Objects) { s := c.Services[price]; s.Wakes = true; c.Services[price] = s })),
		"a new object":  fingerprint(surroundings(), func(r *v2.APIRule) { r.UID = "other" }),
	} {
		require.NotContains(t, seen, other, name)
		seen[other] = name
	}
}
