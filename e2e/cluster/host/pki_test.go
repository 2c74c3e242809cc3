package host_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

func certificate(t *testing.T, path string) *x509.Certificate {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	block, _ := pem.Decode(content)
	require.NotNil(t, block)
	parsed, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	return parsed
}

func TestServersAreTrustedUnderTheirNames(t *testing.T) {
	t.Parallel()
	dir := state.Dir(t.TempDir())
	require.NoError(t, host.WritePKI(dir, host.Members(3)))
	roots := x509.NewCertPool()
	roots.AddCert(certificate(t, dir.PKI("ca.crt")))
	for file, names := range map[string][]string{
		"apiserver.crt":       {"10.200.255.2", "10.202.0.1", "kubernetes.default.svc"},
		"kubelet.crt":         {"10.200.255.2", "rouse"},
		"kubelet-rouse-3.crt": {"10.200.255.10", "rouse-3"},
		"keda.crt":            {"keda-operator.keda.svc.cluster.local", "keda-metrics-apiserver.keda.svc"},
	} {
		for _, name := range names {
			_, err := certificate(t, dir.PKI(file)).Verify(x509.VerifyOptions{Roots: roots, DNSName: name})
			require.NoError(t, err, "%s as %s", file, name)
		}
	}
}

func TestClientsLogInAsTheUsersThatKubernetesExpects(t *testing.T) {
	t.Parallel()
	authority, err := host.NewAuthority("test")
	require.NoError(t, err)
	pair, err := authority.Sign(host.CertificateRequest{Name: "system:node:rouse", Groups: []string{"system:nodes"}})
	require.NoError(t, err)
	block, _ := pem.Decode([]byte(pair.Certificate))
	parsed, err := x509.ParseCertificate(block.Bytes)
	require.NoError(t, err)
	require.Equal(t, "system:node:rouse", parsed.Subject.CommonName)
	require.Equal(t, []string{"system:nodes"}, parsed.Subject.Organization)
}

func TestFrontProxyHasAnAuthorityOfItsOwn(t *testing.T) {
	t.Parallel()
	dir := state.Dir(t.TempDir())
	require.NoError(t, host.WritePKI(dir, host.Members(3)))
	roots := x509.NewCertPool()
	roots.AddCert(certificate(t, dir.PKI("ca.crt")))
	_, err := certificate(t, dir.PKI("front-proxy-client.crt")).Verify(x509.VerifyOptions{
		Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	require.Error(t, err, "a client certificate must not be accepted for the front proxy")
}
