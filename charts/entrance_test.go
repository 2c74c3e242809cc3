package charts

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/gateway/apirules"
)

func TestGatewayWithoutAPIRulesIsNotExposed(t *testing.T) {
	t.Parallel()
	all := render(t, values{"apiRules.tls.secretNames={shop}", "apiRules.trustedProxies={10.0.0.0/8}"})
	for _, service := range of[*corev1.Service](all) {
		require.NotEqual(t, "rouse-gateway-http", service.Name)
	}
	pod := named[*appsv1.Deployment](t, all, "rouse-gateway").Spec.Template.Spec
	require.Empty(t, pod.Volumes)
	require.Len(t, pod.Containers[0].Ports, 2)
	require.NotContains(t, strings.Join(pod.Containers[0].Args, " "), "apirules")
	for _, rule := range named[*rbacv1.ClusterRole](t, all, "rouse-gateway").Rules {
		require.NotContains(t, rule.Resources, "apirules")
	}
}

func TestTheServiceOfAPIRulesLeadsToTheGateways(t *testing.T) {
	t.Parallel()
	all := render(t, values{"apiRules.enabled=true", "apiRules.service.externalTrafficPolicy=Local"})
	service := named[*corev1.Service](t, all, "rouse-gateway-http")
	require.Equal(t, corev1.ServiceTypeClusterIP, service.Spec.Type)
	require.Empty(t, service.Spec.ExternalTrafficPolicy, "a ClusterIP Service has no traffic policy")
	require.Equal(t, named[*appsv1.Deployment](t, all, "rouse-gateway").Spec.Selector.MatchLabels, service.Spec.Selector)
	require.Len(t, service.Spec.Ports, 1)
	require.Equal(t, int32(80), service.Spec.Ports[0].Port)
	require.Equal(t, "http", service.Spec.Ports[0].TargetPort.String())
	args := argsOf(t, all, "rouse-gateway")
	require.Contains(t, args, "--http-address=:8080")
	require.NotContains(t, strings.Join(args, " "), "tls-address")
}

func TestCertificatesAreInOrderAndMayComeLater(t *testing.T) {
	t.Parallel()
	all := render(t, values{
		"apiRules.enabled=true", "apiRules.tls.secretNames={shop,catalog}", "apiRules.service.type=LoadBalancer",
		"apiRules.service.externalTrafficPolicy=Local",
	})
	service := named[*corev1.Service](t, all, "rouse-gateway-http")
	require.Equal(t, corev1.ServiceExternalTrafficPolicyLocal, service.Spec.ExternalTrafficPolicy)
	require.Equal(t, int32(443), service.Spec.Ports[1].Port)
	require.Equal(t, "https", service.Spec.Ports[1].TargetPort.String())
	args := argsOf(t, all, "rouse-gateway")
	require.Contains(t, args, "--tls-address=:8443")
	require.Contains(t, args, "--tls-dir=/etc/rouse/tls")
	volume := named[*appsv1.Deployment](t, all, "rouse-gateway").Spec.Template.Spec.Volumes[0]
	paths := []string{"000-shop/tls.crt", "001-catalog/tls.crt"} // the first is for clients without SNI
	for i, source := range volume.Projected.Sources {
		require.True(t, ptr.Deref(source.Secret.Optional, false), "a missing Secret must not prevent a pod from starting")
		require.Equal(t, paths[i], source.Secret.Items[0].Path)
	}
}

func TestGatewaysGetTheAuthorizersAndRestartOnAChange(t *testing.T) {
	t.Parallel()
	set := values{
		"apiRules.enabled=true", "apiRules.authorizers[0].name=sessions", "apiRules.authorizers[0].service=sessions.auth.svc",
		"apiRules.authorizers[0].port=8080", "apiRules.authorizers[0].path=/check", "apiRules.authorizers[0].timeoutSeconds=1",
		"apiRules.authorizers[0].includeRequestHeadersInCheck={cookie}", "apiRules.authorizers[0].headersToUpstreamOnAllow={x-user}",
	}
	all := render(t, set)
	require.Contains(t, argsOf(t, all, "rouse-gateway"), "--authorizers-file=/etc/rouse/authorizers/authorizers.json")
	authorizers, err := apirules.ParseAuthorizers([]byte(named[*corev1.ConfigMap](t, all, "rouse-gateway-authorizers").Data["authorizers.json"]))
	require.NoError(t, err)
	require.Equal(t, []apirules.Authorizer{{
		Name: "sessions", Service: "sessions.auth.svc", Port: 8080, Path: "/check", TimeoutSeconds: 1,
		IncludeRequestHeadersInCheck: []string{"cookie"}, HeadersToUpstreamOnAllow: []string{"x-user"},
	}}, authorizers)

	checksum := func(all objects) string {
		return named[*appsv1.Deployment](t, all, "rouse-gateway").Spec.Template.Annotations["checksum/authorizers"]
	}
	require.NotEmpty(t, checksum(all))
	require.NotEqual(t, checksum(all), checksum(render(t, append(set, "apiRules.authorizers[0].port=8081"))))
}

func TestGatewaysReadAPIRulesAndGatewaysOfGatewayAPIOnlyWhereTheyServeThem(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]bool{"enabled": true, "disabled": false} {
		all := render(t, values{"apiRules.enabled=true", "apiRules.gatewayAPI=" + setting})
		resources := map[string][]string{}
		for _, rule := range named[*rbacv1.ClusterRole](t, all, "rouse-gateway").Rules {
			require.Subset(t, []string{"get", "list", "watch"}, rule.Verbs, "a gateway writes nothing")
			resources[rule.APIGroups[0]] = rule.Resources
		}
		require.Equal(t, []string{"apirules"}, resources["gateway.kyma-project.io"])
		require.Equal(t, want, resources["gateway.networking.k8s.io"] != nil)
	}
}

func TestGatewayPolicyAllowsClientsOfAPIRulesIssuersAndServices(t *testing.T) {
	t.Parallel()
	all := render(t, values{"apiRules.enabled=true", "apiRules.tls.secretNames={shop}"})
	policy := named[*networkingv1.NetworkPolicy](t, all, "rouse-gateway").Spec
	require.Len(t, policy.Ingress, 3)
	require.Empty(t, policy.Ingress[1].From)
	require.Equal(t, "http", policy.Ingress[1].Ports[0].Port.String())
	require.Equal(t, "https", policy.Ingress[1].Ports[1].Port.String())
	out := policy.Egress[len(policy.Egress)-1]
	require.Empty(t, out.Ports, "Services and issuers have any")
	require.Equal(t, []string{"169.254.0.0/16"}, out.To[1].IPBlock.Except)
}
