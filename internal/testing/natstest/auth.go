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

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// WithToken makes the server require a token.
func WithToken(token string) Option {
	return func(o *server.Options) { o.Authorization = token }
}

// WithNKey allows only the user with the public key.
func WithNKey(public string) Option {
	return func(o *server.Options) { o.Nkeys = []*server.NkeyUser{{Nkey: public}} }
}

// WithAuthorization sets users, accounts and their permissions from a configuration in nats-server's own language.
func WithAuthorization(t testing.TB, config string) Option {
	t.Helper()
	parsed := &server.Options{}
	require.NoError(t, parsed.ProcessConfigString(config), "parse the server's configuration")
	return authorized(parsed)
}

// WithAuthorizationFile does the same from a file, which may include others.
func WithAuthorizationFile(t testing.TB, file string) Option {
	t.Helper()
	parsed := &server.Options{}
	require.NoError(t, parsed.ProcessConfigFile(file), "parse the server's configuration")
	return authorized(parsed)
}

func authorized(parsed *server.Options) Option {
	return func(o *server.Options) {
		o.Users, o.Nkeys, o.Accounts, o.NoAuthUser = parsed.Users, parsed.Nkeys, parsed.Accounts, parsed.NoAuthUser
	}
}

// NewNKey makes a user's key and returns its public part and the seed.
func NewNKey(t testing.TB) (public string, seed []byte) {
	t.Helper()
	pair, err := nkeys.CreateUser()
	require.NoError(t, err)
	public, err = pair.PublicKey()
	require.NoError(t, err)
	seed, err = pair.Seed()
	require.NoError(t, err)
	return public, seed
}

// Operator is an operator with one account, which the server holds in memory.
type Operator struct {
	account     nkeys.KeyPair
	operatorJWT *jwt.OperatorClaims
	resolver    *server.MemAccResolver
	system      string
}

// NewOperator makes an operator whose account may use JetStream.
func NewOperator(t testing.TB) *Operator {
	t.Helper()
	operator, err := nkeys.CreateOperator()
	require.NoError(t, err)
	claims := jwt.NewOperatorClaims(publicKey(t, operator))
	_, err = claims.Encode(operator)
	require.NoError(t, err)
	made := &Operator{operatorJWT: claims, resolver: &server.MemAccResolver{}}
	system := made.addAccount(t, operator, func(*jwt.AccountClaims) {})
	made.system = publicKey(t, system)
	claims.SystemAccount = made.system
	made.account = made.addAccount(t, operator, func(c *jwt.AccountClaims) {
		c.Limits.JetStreamLimits = jwt.JetStreamLimits{
			MemoryStorage: jwt.NoLimit, DiskStorage: jwt.NoLimit, Streams: jwt.NoLimit, Consumer: jwt.NoLimit,
		}
	})
	return made
}

func (o *Operator) addAccount(t testing.TB, operator nkeys.KeyPair, change func(*jwt.AccountClaims)) nkeys.KeyPair {
	t.Helper()
	account, err := nkeys.CreateAccount()
	require.NoError(t, err)
	claims := jwt.NewAccountClaims(publicKey(t, account))
	change(claims)
	token, err := claims.Encode(operator)
	require.NoError(t, err)
	require.NoError(t, o.resolver.Store(publicKey(t, account), token))
	return account
}

// Option makes a server trust the operator.
func (o *Operator) Option() Option {
	return func(options *server.Options) {
		options.TrustedOperators = []*jwt.OperatorClaims{o.operatorJWT}
		options.AccountResolver = o.resolver
		options.SystemAccount = o.system
	}
}

// Credentials makes a user of the account and returns the content of a .creds file. The credentials expire after
// lifetime; 0 means never.
func (o *Operator) Credentials(t testing.TB, lifetime time.Duration) []byte {
	t.Helper()
	public, seed := NewNKey(t)
	claims := jwt.NewUserClaims(public)
	if lifetime > 0 {
		claims.Expires = time.Now().Add(lifetime).Unix()
	}
	token, err := claims.Encode(o.account)
	require.NoError(t, err)
	creds, err := jwt.FormatUserConfig(token, seed)
	require.NoError(t, err, "format credentials")
	return creds
}

func publicKey(t testing.TB, pair nkeys.KeyPair) string {
	t.Helper()
	public, err := pair.PublicKey()
	require.NoError(t, err)
	return public
}

// Authority issues certificates for the servers and clients of a test.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes an authority.
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

// CAFile writes the authority's certificate to a file.
func (a *Authority) CAFile(t testing.TB) string {
	t.Helper()
	return write(t, "ca.crt", "CERTIFICATE", a.certificate.Raw)
}

// Client writes the certificate and the key of a client to files.
func (a *Authority) Client(t testing.TB, name string) (certFile, keyFile string) {
	t.Helper()
	der, key := issue(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, a)
	private, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	return write(t, "tls.crt", "CERTIFICATE", der), write(t, "tls.key", "EC PRIVATE KEY", private)
}

// WithTLS makes the server use TLS with a certificate of the authority, and require client certificates when mutual.
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

// issue signs with the authority's key, or with the new key for the authority's own certificate.
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
