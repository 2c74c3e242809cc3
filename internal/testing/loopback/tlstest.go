// Package tlstest makes certificates for servers in tests.
package loopback

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Pair is a certificate in PEM, which signs itself, and its key.
type Pair struct{ Certificate, Key []byte }

// Make makes one for these names, until a time; the zero time: for an hour.
func Make(t testing.TB, until time.Time, names ...string) Pair {
	t.Helper()
	if until.IsZero() {
		until = time.Now().Add(time.Hour)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, DNSNames: names,
		NotBefore: until.Add(-24 * time.Hour), NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA:        true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}),
	}
}

// Server is a configuration with the certificate that speaks HTTP/2, too.
func (p Pair) Server(t testing.TB) *tls.Config {
	t.Helper()
	certificate, err := tls.X509KeyPair(p.Certificate, p.Key)
	require.NoError(t, err)
	return &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
}

// Roots trusts these certificates.
func Roots(t testing.TB, pairs ...Pair) *x509.CertPool {
	t.Helper()
	pool := x509.NewCertPool()
	for _, pair := range pairs {
		require.True(t, pool.AppendCertsFromPEM(pair.Certificate))
	}
	return pool
}
