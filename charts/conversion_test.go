package charts

import (
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	crdOfFunctions       = "functions.serverless.kyma-project.io"
	crdOfGitRepositories = "gitrepositories.serverless.kyma-project.io"
)

func TestV1alpha1IsServedOnlyOnRequest(t *testing.T) {
	t.Parallel()
	for _, crd := range of[*apiextensionsv1.CustomResourceDefinition](render(t, nil)) {
		require.NotEqual(t, crdOfGitRepositories, crd.Name)
		require.Nil(t, crd.Spec.Conversion, crd.Name)
		if crd.Spec.Group == "rouse.run" {
			continue // v1alpha1 is its first version
		}
		for _, version := range crd.Spec.Versions {
			require.NotEqual(t, "v1alpha1", version.Name, crd.Name)
		}
	}
}

func TestV1alpha1IsServedAndNeverStored(t *testing.T) {
	t.Parallel()
	all := render(t, installations["older Functions"])
	crd := named[*apiextensionsv1.CustomResourceDefinition](t, all, crdOfFunctions)
	require.Len(t, crd.Spec.Versions, 2)
	require.True(t, crd.Spec.Versions[0].Storage)
	older := crd.Spec.Versions[1]
	require.Equal(t, "v1alpha1", older.Name)
	require.True(t, older.Served && older.Deprecated && !older.Storage)
	named[*apiextensionsv1.CustomResourceDefinition](t, all, crdOfGitRepositories)

	webhook := crd.Spec.Conversion.Webhook
	require.Equal(t, "rouse-conversion", webhook.ClientConfig.Service.Name)
	secret := named[*corev1.Secret](t, all, "rouse-conversion")
	verify(t, secret, string(webhook.ClientConfig.CABundle), x509.VerifyOptions{
		DNSName: "rouse-conversion.rouse-system.svc", KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	require.Contains(t, named[*appsv1.Deployment](t, all, "rouse-controller").Spec.Template.Spec.Containers[0].Args, "--conversion-address=:9443")
}

func TestConversionWebhookUsesAConfiguredCertificate(t *testing.T) {
	t.Parallel()
	all := render(t, installations["older Functions by another certificate"])
	crd := named[*apiextensionsv1.CustomResourceDefinition](t, all, crdOfFunctions)
	require.Equal(t, authority, string(crd.Spec.Conversion.Webhook.ClientConfig.CABundle))
	for _, secret := range of[*corev1.Secret](all) {
		require.NotEqual(t, "rouse-conversion", secret.Name)
	}
	volumes := named[*appsv1.Deployment](t, all, "rouse-controller").Spec.Template.Spec.Volumes
	require.Equal(t, "conversion", volumes[len(volumes)-1].Secret.SecretName)
}

func TestV1alpha1IsSwitchedOnAndOffAgain(t *testing.T) {
	env := cluster.Environment(t)
	restrictedNamespace(t, env)
	run, try := helmOn(t, env.Config), tryHelmOn(t, env.Config)
	run("install", "rouse", chart, "--take-ownership", "--set", "functions.v1alpha1.enabled=true")
	defer run("uninstall", "rouse", "--no-hooks") // without a kubelet no Job completes
	crd := &apiextensionsv1.CustomResourceDefinition{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Name: crdOfFunctions}, crd))
	require.Len(t, crd.Spec.Versions, 2)
	require.Equal(t, []string{"v1alpha2"}, crd.Status.StoredVersions)
	before := crd.Spec.Conversion.Webhook.ClientConfig.CABundle

	run("upgrade", "rouse", chart, "--reuse-values", "--set", "logLevel=debug")
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Name: crdOfFunctions}, crd))
	require.Equal(t, before, crd.Spec.Conversion.Webhook.ClientConfig.CABundle, "an upgrade keeps the certificate")

	off := []string{"upgrade", "rouse", chart, "--set", "functions.v1alpha1.enabled=false"}
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter} // no webhook runs here
	require.NoError(t, env.Client.Update(t.Context(), crd))
	fn := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "serverless.kyma-project.io/v1alpha1", "kind": "Function", "metadata": map[string]any{"namespace": "default", "name": "older"},
		"spec": map[string]any{"source": "code", "runtime": "nodejs22"},
	}}
	require.Eventually(t, func() bool { return env.Client.Create(t.Context(), fn.DeepCopy()) == nil }, time.Minute, 50*time.Millisecond)
	out, err := try(off...)
	require.Error(t, err, out)
	require.Contains(t, out, "1 Functions have managed fields of v1alpha1, as default/older")
	require.Contains(t, out, "take these fields away: see \"To end it\" in docs/convert.md")
	require.NoError(t, env.Client.Delete(t.Context(), fn))
	run(off...)
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Name: crdOfFunctions}, crd))
	require.Len(t, crd.Spec.Versions, 1)
	require.Equal(t, apiextensionsv1.NoneConverter, crd.Spec.Conversion.Strategy)
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKey{Name: crdOfGitRepositories}, crd), "the CRD must stay, with its objects")
}

// No label identifies an API server, so the operator has to configure its addresses.
func TestNetworkPolicyAdmitsConversionsFromConfiguredAddresses(t *testing.T) {
	t.Parallel()
	const serves = "functions.v1alpha1.enabled=true"
	for _, tc := range []struct {
		set  values
		want []networkingv1.NetworkPolicyPeer
	}{
		{set: values{serves}},
		{
			set:  values{serves, "networkPolicies.conversionFrom[0].ipBlock.cidr=10.0.0.0/28"},
			want: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/28"}}},
		},
	} {
		rules := named[*networkingv1.NetworkPolicy](t, render(t, tc.set), "rouse-controller").Spec.Ingress
		require.Equal(t, "conversion", rules[0].Ports[0].Port.String())
		require.Equal(t, tc.want, rules[0].From)
	}
}
