package natstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// Authority issues certificates for the servers and clients of a test.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes one.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{}
	der, key := issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, a)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	a.certificate, a.key = certificate, key
	return a
}

// CAFile writes the authority's own certificate.
func (a *Authority) CAFile(t testing.TB) string {
	t.Helper()
	return write(t, "ca.crt", "CERTIFICATE", a.certificate.Raw)
}

// Client writes the certificate and the key of a client.
func (a *Authority) Client(t testing.TB, name string) (certFile, keyFile string) {
	t.Helper()
	der, key := issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a)
	private, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	return write(t, "tls.crt", "CERTIFICATE", der), write(t, "tls.key", "EC PRIVATE KEY", private)
}

// WithTLS makes the server speak TLS with a certificate of the authority, and ask clients for one of it when mutual.
func WithTLS(t testing.TB, a *Authority, mutual bool) Option {
	t.Helper()
	der, key := issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "nats"}, IPAddresses: []net.IP{net.ParseIP(loopback.Host)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, a)
	config := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, MinVersion: tls.VersionTLS12}
	if mutual {
		config.ClientCAs = x509.NewCertPool()
		config.ClientCAs.AddCert(a.certificate)
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return func(o *server.Options) {
		o.TLS, o.TLSVerify, o.TLSConfig, o.TLSTimeout = true, mutual, config, startTimeout.Seconds()
	}
}

// issue signs by the authority, or by the new key itself while the authority has none.
func issue(t testing.TB, template *x509.Certificate, by *Authority) (der []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := by.certificate, by.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err = x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	return der, key
}

func write(t testing.TB, name, kind string, der []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
	return path
}
