package target

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
)

func TestURLsOfFunctionsComeFromTheirAPIRules(t *testing.T) {
	t.Parallel()
	name := func(namespace, name string) types.NamespacedName {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	fronts := map[types.NamespacedName]front{
		name("edge", "own"):  {apirule.Gateway{Hosts: []string{"*.example.com"}}, false},
		name("edge", "tls"):  {apirule.Gateway{Hosts: []string{"*.example.org", "*.example.org"}}, true},
		name("edge", "many"): {apirule.Gateway{Hosts: []string{"*.a.example", "*.b.example"}}, true},
	}
	rule := func(gateway, host string, rules ...v2.Rule) v2.APIRule {
		return v2.APIRule{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}, Spec: v2.APIRuleSpec{
			Hosts: []v2.Host{v2.Host(host)}, Gateway: &gateway, Service: &v2.Service{Name: "price", Port: 80}, Rules: rules,
		}}
	}
	all := v2.Rule{Path: "/*"}
	foreign := v2.Rule{Path: "/stock", Service: &v2.Service{Name: "stock", Namespace: "stores", Port: 80}}
	noHost := rule("edge/own", "a", all)
	noHost.Spec.Hosts = nil
	for test, tc := range map[string]struct {
		apiRules []v2.APIRule
		want     map[types.NamespacedName][]string
	}{
		"a short host":              {[]v2.APIRule{rule("edge/own", "price", all)}, map[types.NamespacedName][]string{name("shop", "price"): {"http://price.example.com/"}}},
		"a gateway with TLS":        {[]v2.APIRule{rule("edge/tls", "price", all)}, map[types.NamespacedName][]string{name("shop", "price"): {"https://price.example.org/"}}},
		"a whole host":              {[]v2.APIRule{rule("edge/many", "*.c.example", all)}, map[types.NamespacedName][]string{name("shop", "price"): {"https://*.c.example/"}}},
		"a gateway of two domains":  {[]v2.APIRule{rule("edge/many", "price", all)}, map[types.NamespacedName][]string{}},
		"an unknown gateway":        {[]v2.APIRule{rule("edge/none", "price", all)}, map[types.NamespacedName][]string{}},
		"an APIRule without a host": {[]v2.APIRule{noHost}, map[types.NamespacedName][]string{}},
		"paths, each once": {
			[]v2.APIRule{rule("edge/own", "p", v2.Rule{Path: "/a"}, v2.Rule{Path: "/a"}, v2.Rule{Path: "/a/{*}"}), rule("edge/own", "q", all)},
			map[types.NamespacedName][]string{name("shop", "price"): {"http://p.example.com/a", "http://p.example.com/a/{*}", "http://q.example.com/"}},
		},
		"a Service of another namespace": {
			[]v2.APIRule{rule("edge/own", "p", foreign, all)},
			map[types.NamespacedName][]string{name("shop", "price"): {"http://p.example.com/"}, name("stores", "stock"): {"http://p.example.com/stock"}},
		},
	} {
		require.Equal(t, tc.want, exposedBy(tc.apiRules, fronts), test)
	}
}

func TestDomainsOfRousesGatewaysComeFromTheirArguments(t *testing.T) {
	t.Parallel()
	fronts := map[types.NamespacedName]front{}
	addFronts(fronts, &corev1.Container{Args: []string{"--gateway-domain=a/b=example.com", "--gateway-domain=c/d=example.org", "--tls-address="}})
	addFronts(fronts, &corev1.Container{Args: []string{"--tls-address=:8443", "--gateway-domain=e/f=example.net"}})
	require.Equal(t, map[types.NamespacedName]front{
		nameOf("a/b"): {apirule.Gateway{Hosts: []string{"*.example.com"}}, false},
		nameOf("c/d"): {apirule.Gateway{Hosts: []string{"*.example.org"}}, false},
		nameOf("e/f"): {apirule.Gateway{Hosts: []string{"*.example.net"}}, true},
	}, fronts)
}

func TestDomainsOfGatewayAPIComeFromListeners(t *testing.T) {
	t.Parallel()
	gateway := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "Gateway", "metadata": map[string]any{"namespace": "edge", "name": "public"},
		"spec": map[string]any{"listeners": []any{
			map[string]any{"hostname": "*.example.com", "protocol": "HTTPS"},
			map[string]any{"hostname": "*.example.com", "protocol": "HTTP"},
			map[string]any{"protocol": "TCP"},
		}},
	}}
	c := &cluster{objects: fake.NewSimpleDynamicClient(runtime.NewScheme())}
	_, err := c.objects.Resource(gatewaysResource()).Namespace("edge").Create(t.Context(), gateway, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, front{apirule.Gateway{Hosts: []string{"*.example.com", "*.example.com"}}, true}, c.front(t.Context(), nameOf("edge/public")))
	require.Equal(t, front{tls: true}, c.front(t.Context(), nameOf("edge/none")), "a whole host is taken to be served with TLS")
}

const apiRuleManifest = `
apiVersion: gateway.kyma-project.io/v2
kind: APIRule
metadata: {name: pricing}
spec:
  hosts: [pricing]
  gateway: edge/own
  service: {name: pricing, port: 80}
  rules: [{path: /*, methods: [GET], noAuth: true}]
`

func TestAPIRulesThatAreReadyExposeFunctionsOfACluster(t *testing.T) {
	t.Parallel()
	c := newTestCluster(t)
	apiRule := c.apply(t, apiRuleManifest)
	c.apply(t, strings.Replace(gatewayManifest, "image: x", "image: x, args: [--gateway-domain=edge/own=example.com]", 1))
	conn := c.open(t, "admin")
	require.Empty(t, conn.Exposed(t.Context(), c.namespace), "an APIRule without a state must not expose")

	for state, want := range map[string][]string{"Error": nil, "Ready": {"http://pricing.example.com/"}} {
		require.NoError(t, unstructured.SetNestedField(apiRule.Object, state, "status", "state"))
		require.NoError(t, c.Client.Status().Update(t.Context(), apiRule))
		for _, namespace := range []string{c.namespace, ""} {
			exposed := conn.Exposed(t.Context(), namespace)
			require.Equal(t, want, exposed[types.NamespacedName{Namespace: c.namespace, Name: "pricing"}], state)
		}
	}
	require.Empty(t, c.open(t, "limited").Exposed(t.Context(), c.namespace), "who may not list them sees none, and no error")
}
