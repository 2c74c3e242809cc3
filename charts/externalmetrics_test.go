package charts

import (
	"crypto/x509"
	"encoding/base64"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const externalMetricsAPI = "v1beta1.external.metrics.k8s.io"

func TestTheExternalMetricsAPIIsServedOnlyOnRequest(t *testing.T) {
	t.Parallel()
	all := render(t, nil)
	for _, object := range of[*unstructured.Unstructured](all) {
		require.NotEqual(t, externalMetricsAPI, object.GetName(), "it may be KEDA's")
	}
	require.NotContains(t, argsOf(t, all, "rouse-controller"), "--external-metrics")
}

func TestTheAPIServerTrustsTheScalersExternalMetrics(t *testing.T) {
	t.Parallel()
	all := render(t, installations["without KEDA"])
	api := named[*unstructured.Unstructured](t, all, externalMetricsAPI)
	require.Equal(t, "rouse-external-metrics", text(api, "spec", "service", "name"))
	require.Equal(t, namespace, text(api, "spec", "service", "namespace"))
	bundle, err := base64.StdEncoding.DecodeString(text(api, "spec", "caBundle"))
	require.NoError(t, err)
	verify(t, named[*corev1.Secret](t, all, "rouse-external-metrics"), string(bundle), x509.VerifyOptions{
		DNSName: "rouse-external-metrics.rouse-system.svc", KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	require.Contains(t, argsOf(t, all, "rouse-scaler"), "--external-metrics-address=:6443")
	require.Contains(t, argsOf(t, all, "rouse-controller"), "--external-metrics")
	service := named[*corev1.Service](t, all, "rouse-external-metrics")
	require.Empty(t, service.Spec.ClusterIP, "the API server asks a cluster IP")
	require.Equal(t, "external", service.Spec.Ports[0].TargetPort.String())

	reads := named[*rbacv1.RoleBinding](t, all, "rouse-external-metrics")
	require.Equal(t, "kube-system", reads.Namespace)
	require.Equal(t, "extension-apiserver-authentication-reader", reads.RoleRef.Name)
	rules := named[*networkingv1.NetworkPolicy](t, all, "rouse-scaler").Spec.Ingress
	require.Equal(t, "external", rules[1].Ports[0].Port.String())
	require.Equal(t, []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/28"}}}, rules[1].From)
}

func TestExternalMetricsUseAConfiguredCertificate(t *testing.T) {
	t.Parallel()
	all := render(t, installations["without KEDA by another certificate"])
	bundle, err := base64.StdEncoding.DecodeString(text(named[*unstructured.Unstructured](t, all, externalMetricsAPI), "spec", "caBundle"))
	require.NoError(t, err)
	require.Equal(t, authority, string(bundle))
	for _, secret := range of[*corev1.Secret](all) {
		require.NotEqual(t, "rouse-external-metrics", secret.Name)
	}
	var mounted []string
	for _, volume := range named[*appsv1.Deployment](t, all, "rouse-scaler").Spec.Template.Spec.Volumes {
		if volume.Secret != nil {
			mounted = append(mounted, volume.Secret.SecretName)
		}
	}
	require.Equal(t, []string{"rouse-scaler", "external"}, mounted)
}

// Functions of a Serverless sleep as others do, which the controller of activators and wakes has to know, too.
func TestTheControllerThatWakesKnowsOfExternalMetricsAlsoBesideAnOperator(t *testing.T) {
	t.Parallel()
	all := render(t, append(slices.Clone(installations[operated]), "scaler.externalMetrics.enabled=true"))
	require.Contains(t, argsOf(t, all, "rouse-controller"), "--external-metrics")
	reads := slices.ContainsFunc(named[*rbacv1.ClusterRole](t, all, "rouse-controller").Rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Resources, "horizontalpodautoscalers") && slices.Equal(rule.Verbs, []string{"get"})
	})
	require.True(t, reads)
}

func text(object *unstructured.Unstructured, path ...string) string {
	found, _, _ := unstructured.NestedString(object.Object, path...)
	return found
}
