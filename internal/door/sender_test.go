package door

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
)

// authority issues certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	a := &authority{key: key, certificate: &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}}
	a.certificate = a.sign(t, a.certificate, &key.PublicKey)
	return a
}

func (a *authority) sign(t *testing.T, template *x509.Certificate, public *ecdsa.PublicKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, public, a.key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return certificate
}

func (a *authority) issue(t *testing.T, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "commerce"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	change(template)
	return a.sign(t, template, &a.key.PublicKey)
}

func (a *authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}))
}

func nothing(*x509.Certificate) {}

func doorOf(t *testing.T, spec v1alpha1.DoorSpec, keys *Keys) *Door {
	t.Helper()
	spec.CloudEvents = &v1alpha1.DoorCloudEvents{Origins: []string{"events.example.com"}}
	compiled, err := New(&v1alpha1.Door{Spec: spec}, keys)
	require.NoError(t, err)
	return compiled
}

func TestACertificateOfTheDoorsAuthorityAndSubjectsMaySend(t *testing.T) {
	t.Parallel()
	own, other := newAuthority(t), newAuthority(t)
	revoked := own.issue(t, func(c *x509.Certificate) { c.SerialNumber = big.NewInt(7) })
	sum := sha256.Sum256(revoked.Raw)
	opened := doorOf(t, v1alpha1.DoorSpec{ClientCertificates: &v1alpha1.DoorClientCertificates{
		CA: own.pem(), Subjects: []string{"commerce", "DNS:billing.example.com", "URI:spiffe://shop/billing"}, Revoked: []string{hex.EncodeToString(sum[:])},
	}}, nil)
	uri, err := url.Parse("spiffe://shop/billing")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		chain []*x509.Certificate
		want  error
	}{
		"by its common name": {[]*x509.Certificate{own.issue(t, nothing)}, nil},
		"by its DNS name": {[]*x509.Certificate{own.issue(t, func(c *x509.Certificate) {
			c.Subject.CommonName, c.DNSNames = "x", []string{"billing.example.com"}
		})}, nil},
		"by its URI": {[]*x509.Certificate{own.issue(t, func(c *x509.Certificate) {
			c.Subject.CommonName, c.URIs = "x", []*url.URL{uri}
		})}, nil},
		"none":                 {nil, ErrCertificate},
		"by another authority": {[]*x509.Certificate{other.issue(t, nothing)}, ErrIssuer},
		"another authority in its chain": {
			[]*x509.Certificate{other.issue(t, nothing), other.certificate, own.certificate}, ErrIssuer,
		},
		"expired":      {[]*x509.Certificate{own.issue(t, func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Minute) })}, ErrIssuer},
		"not yet":      {[]*x509.Certificate{own.issue(t, func(c *x509.Certificate) { c.NotBefore = now.Add(time.Minute) })}, ErrIssuer},
		"for servers":  {[]*x509.Certificate{own.issue(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })}, ErrIssuer},
		"revoked":      {[]*x509.Certificate{revoked}, ErrRevoked},
		"of another":   {[]*x509.Certificate{own.issue(t, func(c *x509.Certificate) { c.Subject.CommonName = "commerce2" })}, ErrSubject},
		"of no name":   {[]*x509.Certificate{own.issue(t, func(c *x509.Certificate) { c.Subject.CommonName = "" })}, ErrSubject},
		"a forged DNS": {[]*x509.Certificate{own.issue(t, func(c *x509.Certificate) { c.Subject.CommonName = "DNS:billing.example.com" })}, ErrSubject},
		"with commas":  {[]*x509.Certificate{own.issue(t, func(c *x509.Certificate) { c.Subject.CommonName = `x\,CN=commerce` })}, ErrSubject},
		"a long chain": {[]*x509.Certificate{own.issue(t, nothing), own.certificate, own.certificate, own.certificate, own.certificate}, ErrIssuer},
	} {
		_, err := opened.Verify(&Request{Certificates: c.chain}, now)
		require.Equal(t, c.want, err, name)
	}
	_, err = opened.Verify(&Request{Certificates: []*x509.Certificate{own.issue(t, nothing)}}, now.Add(2*time.Hour))
	require.Equal(t, ErrIssuer, err, "it ended while the connection was open")
}

func TestAKeyIsComparedAsAWhole(t *testing.T) {
	t.Parallel()
	opened := doorOf(t, v1alpha1.DoorSpec{Key: &v1alpha1.DoorKey{SecretName: "keys"}}, &Keys{Current: []byte("new"), Previous: []byte("old\n")})
	for value, name := range map[string]string{"Bearer new": KeyCurrent, "bearer old": KeyPrevious, "Bearer ": "", "Bearer ne": "", "new": "", "Basic new": ""} {
		verified, err := opened.Verify(&Request{Header: header("Authorization", value)}, now)
		require.Equal(t, name, verified.Key, value)
		require.Equal(t, name == "", err == ErrKey, value) //nolint:errorlint // it is never wrapped
	}
}

func TestATokenIsOfASubjectThatMaySend(t *testing.T) {
	t.Parallel()
	opened := doorOf(t, v1alpha1.DoorSpec{JWT: &v1alpha1.DoorJWT{Subjects: []string{"billing"}}}, nil)
	for claims, want := range map[string]error{`{"sub":"billing"}`: nil, `{"sub":"billing2"}`: ErrSubject, `{}`: ErrSubject, `{`: ErrSubject} {
		token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
		_, err := opened.Verify(&Request{Header: header("Authorization", "Bearer "+token)}, now)
		require.Equal(t, want, err, claims)
	}
	_, err := opened.Verify(&Request{Header: header("Authorization", "Bearer x")}, now)
	require.Equal(t, ErrMalformed, err)
}

func TestTheHandshakeOfWebhooksIsConsentedToForKnownOrigins(t *testing.T) {
	t.Parallel()
	opened := doorOf(t, v1alpha1.DoorSpec{JWT: &v1alpha1.DoorJWT{}}, nil)
	require.True(t, opened.Consents("Events.example.com"))
	require.False(t, opened.Consents("evil.example.com"))
}
