package scaler

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

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// authority is a certificate of its own with its key; it also signs itself.
type authority struct {
	cert, key string // files
	pair      tls.Certificate
	pool      *x509.CertPool
}

func newAuthority(t *testing.T, dir, name string) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	a := authority{cert: filepath.Join(dir, name+".crt"), key: filepath.Join(dir, name+".key"), pool: x509.NewCertPool()}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	require.NoError(t, os.WriteFile(a.cert, certPEM, 0o600))
	require.NoError(t, os.WriteFile(a.key, keyPEM, 0o600))
	a.pair, err = tls.X509KeyPair(certPEM, keyPEM)
	require.NoError(t, err)
	a.pool.AppendCertsFromPEM(certPEM)
	return a
}

func TestWithTLSOnlyKEDAGetsAnAnswer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server, keda, stranger := newAuthority(t, dir, "server"), newAuthority(t, dir, "keda"), newAuthority(t, dir, "stranger")
	r := newRig(t)
	r.options.TLS = TLSOptions{CertFile: server.cert, KeyFile: server.key, ClientCAFile: keda.cert}
	r.routes.post(nil)

	clients := map[string]struct {
		credentials credentials.TransportCredentials
		wantErr     bool
	}{
		"KEDA": {credentials: credentials.NewTLS(&tls.Config{
			RootCAs: server.pool, Certificates: []tls.Certificate{keda.pair}, MinVersion: tls.VersionTLS12,
		})},
		"a stranger": {credentials: credentials.NewTLS(&tls.Config{
			RootCAs: server.pool, Certificates: []tls.Certificate{stranger.pair}, MinVersion: tls.VersionTLS12,
		}), wantErr: true},
		"a client without a certificate": {credentials: credentials.NewTLS(&tls.Config{
			RootCAs: server.pool, MinVersion: tls.VersionTLS12,
		}), wantErr: true},
		"a client without TLS": {credentials: insecure.NewCredentials(), wantErr: true},
	}
	address := r.serveTCP()
	for name, tc := range clients {
		t.Run(name, func(t *testing.T) {
			conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(tc.credentials))
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
			_, err = newClient(conn).GetMetricSpec(t.Context(), r.ref("order"))
			require.Equal(t, tc.wantErr, err != nil, "%v", err)
		})
	}
}

func TestUnusableCertificatesStopTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := newAuthority(t, dir, "server")
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	tests := map[string]struct {
		options TLSOptions
		want    string
	}{
		"no such file":       {options: TLSOptions{CertFile: dir + "/none", KeyFile: server.key}, want: "load server certificate"},
		"not a certificate":  {options: TLSOptions{CertFile: empty, KeyFile: empty}, want: "load server certificate"},
		"no authority":       {options: TLSOptions{CertFile: server.cert, KeyFile: server.key, ClientCAFile: dir + "/none"}, want: "read client authority"},
		"an empty authority": {options: TLSOptions{CertFile: server.cert, KeyFile: server.key, ClientCAFile: empty}, want: "no certificate in"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tc.options.credentials()
			require.ErrorContains(t, err, tc.want)
		})
	}
}
