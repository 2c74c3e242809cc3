package charts

import (
	"crypto/tls"
	"crypto/x509"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func TestKEDAAndTheScalerTrustEachOthersCertificates(t *testing.T) {
	t.Parallel()
	all := render(t, installations["TLS with KEDA"])
	scaler, keda := named[*corev1.Secret](t, all, "rouse-scaler"), named[*corev1.Secret](t, all, "rouse-scaler-keda")
	require.Equal(t, namespace, scaler.Namespace)
	require.Equal(t, "keda", keda.Namespace, "where KEDA looks for it")
	verify(t, scaler, keda.StringData["ca.crt"], x509.VerifyOptions{
		DNSName: "rouse-scaler.rouse-system.svc.cluster.local", KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	verify(t, keda, scaler.StringData["ca.crt"], x509.VerifyOptions{KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})

	require.Subset(t, named[*appsv1.Deployment](t, all, "rouse-scaler").Spec.Template.Spec.Containers[0].Args, []string{
		"--tls-cert=/etc/rouse/scaler-tls/tls.crt", "--tls-key=/etc/rouse/scaler-tls/tls.key", "--tls-client-ca=/etc/rouse/scaler-tls/ca.crt",
	})
	require.Contains(t, named[*appsv1.Deployment](t, all, "rouse-controller").Spec.Template.Spec.Containers[0].Args,
		"--scaler-authentication=rouse-scaler")
	require.Equal(t, map[string]string{"caCert": "rouse-scaler-keda", "tlsClientCert": "rouse-scaler-keda", "tlsClientKey": "rouse-scaler-keda"},
		kedaSecrets(t, all))
}

func TestCertificatesForKEDAAreGeneratedOnlyWithoutSecrets(t *testing.T) {
	t.Parallel()
	all := render(t, installations["TLS with KEDA by other certificates"])
	for _, secret := range of[*corev1.Secret](all) {
		require.NotContains(t, secret.Name, "scaler")
	}
	require.Equal(t, map[string]string{"caCert": "keda", "tlsClientCert": "keda", "tlsClientKey": "keda"}, kedaSecrets(t, all))
	volumes := named[*appsv1.Deployment](t, all, "rouse-scaler").Spec.Template.Spec.Volumes
	require.Equal(t, "scaler", volumes[0].Secret.SecretName)
}

// kedaSecrets returns the Secrets of the ClusterTriggerAuthentication, by parameter.
func kedaSecrets(t *testing.T, all objects) map[string]string {
	t.Helper()
	authentication := named[*unstructured.Unstructured](t, all, "rouse-scaler")
	require.Equal(t, "ClusterTriggerAuthentication", authentication.GetKind())
	references, _, err := unstructured.NestedSlice(authentication.Object, "spec", "secretTargetRef")
	require.NoError(t, err)
	found := map[string]string{}
	for _, reference := range references {
		fields, ok := reference.(map[string]any)
		require.True(t, ok)
		found[fields["parameter"].(string)] = fields["name"].(string) //nolint:forcetypeassert // a panic fails the test as well
	}
	return found
}

func verify(t *testing.T, secret *corev1.Secret, authority string, options x509.VerifyOptions) {
	t.Helper()
	pair, err := tls.X509KeyPair([]byte(secret.StringData["tls.crt"]), []byte(secret.StringData["tls.key"]))
	require.NoError(t, err)
	options.Roots = x509.NewCertPool()
	require.True(t, options.Roots.AppendCertsFromPEM([]byte(authority)))
	certificate, err := x509.ParseCertificate(pair.Certificate[0])
	require.NoError(t, err)
	_, err = certificate.Verify(options)
	require.NoError(t, err)
}
