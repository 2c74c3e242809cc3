package jwt

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/fips140"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rouse-run/rouse/internal/dialguard"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	issuerName = "https://issuer.example"
	keyName    = "key-1"
)

// atNoon is the time of the tests.
var atNoon = time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC)

// clock stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}

// issuer is a server of keys.
type issuer struct {
	*httptest.Server

	asked  atomic.Int64
	answer atomic.Pointer[http.HandlerFunc]
}

func newIssuer(t *testing.T, keys ...jose.JSONWebKey) *issuer {
	t.Helper()
	i := &issuer{}
	i.publish(t, keys...)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		i.asked.Add(1)
		(*i.answer.Load())(w, request)
	}))
	t.Cleanup(i.Close)
	return i
}

func (i *issuer) answers(handler http.HandlerFunc) { i.answer.Store(&handler) }

func (i *issuer) publish(t *testing.T, keys ...jose.JSONWebKey) {
	t.Helper()
	body, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	require.NoError(t, err)
	i.answers(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
}

// signer signs whatever it is given, with Ed25519.
type signer struct {
	id  string
	key ed25519.PrivateKey
}

func newSigner(t testing.TB, id string) signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	return signer{id: id, key: key}
}

func (s signer) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.key.Public(), KeyID: s.id, Algorithm: "EdDSA", Use: "sig"}
}

// token signs claims with an ordinary header.
func (s signer) token(t *testing.T, claims map[string]any) string {
	t.Helper()
	header, err := json.Marshal(map[string]any{"alg": "EdDSA", "kid": s.id, "typ": "JWT"})
	require.NoError(t, err)
	payload, err := json.Marshal(claims)
	require.NoError(t, err)
	return s.sign(string(header), string(payload))
}

func (s signer) sign(header, payload string) string {
	signed := encode(header) + "." + encode(payload)
	return signed + "." + encode(string(ed25519.Sign(s.key, []byte(signed))))
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// keysOf has the issuers' keys loaded. Its clock is at noon.
func keysOf(t *testing.T, issuers ...*issuer) (*Keys, *clock) {
	t.Helper()
	at := &clock{now: atNoon}
	keys := NewKeys(KeysOptions{Guard: dialguard.Guard{AllowLoopback: true}, Now: at.Now})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		keys.Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	var uris []string
	for _, i := range issuers {
		uris = append(uris, i.URL)
	}
	keys.Use(map[string][]string{"shop": uris})
	for _, uri := range uris {
		awaitFetch(t, keys, uri)
	}
	return keys, at
}

// awaitFetch waits for the end of the first fetch.
func awaitFetch(t *testing.T, keys *Keys, uri string) {
	t.Helper()
	keys.refetch(t.Context(), uri, nil, "")
}

func validatorOf(t *testing.T, keys *Keys, at *clock, rule Rule) *Validator {
	t.Helper()
	v, err := New(rule, Options{Keys: keys, Now: at.Now})
	require.NoError(t, err)
	return v
}

// ruleOf accepts the tokens of an issuer.
func ruleOf(i *issuer, authorizations ...Authorization) Rule {
	return Rule{Authentications: []Authentication{{Issuer: issuerName, JWKSURI: i.URL}}, Authorizations: authorizations}
}

// claimsOf returns the claims of a valid token with changes. A nil removes a claim.
func claimsOf(changes map[string]any) map[string]any {
	all := map[string]any{"iss": issuerName, "sub": "alice", "exp": atNoon.Add(time.Hour).Unix()}
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	return all
}

func get(target string, headers ...string) *http.Request {
	request := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	return request
}

// bearing is a request with a token where it usually is.
func bearing(token string) *http.Request {
	return get("http://shop.example/orders", "Authorization", "Bearer "+token)
}

const shopChallenge = `Bearer realm="http://shop.example/orders", error="invalid_token"`

func invalid(why problem) Result {
	return Result{Status: http.StatusUnauthorized, Body: string(why), Challenge: shopChallenge}
}

var (
	allowed = Result{Allowed: true}
	denied  = Result{Status: http.StatusForbidden, Body: "RBAC: access denied"}

	rsaKey = sync.OnceValue(func() *rsa.PrivateKey { return must(rsa.GenerateKey(rand.Reader, 2048)) })
	weak   = sync.OnceValue(func() (key *rsa.PrivateKey) {
		fips140.WithoutEnforcement(func() { key = must(rsa.GenerateKey(rand.Reader, 1024)) }) // which fails in FIPS mode
		return key
	})
)

func ecKey(curve elliptic.Curve) *ecdsa.PrivateKey {
	return must(ecdsa.GenerateKey(curve, rand.Reader))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
