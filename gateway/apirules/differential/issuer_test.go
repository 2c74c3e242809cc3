package differential

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/stretchr/testify/require"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

// issuer publishes its keys and signs tokens with them.
type issuer struct {
	name   string
	jwks   string // as text
	uri    string
	keys   map[string]key // by kid
	secret []byte         // a key that is published although it should be secret
}

type key struct {
	algorithm jose.SignatureAlgorithm
	private   any
}

func newIssuer(t *testing.T, name string) *issuer {
	t.Helper()
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	i := &issuer{name: name, secret: make([]byte, 32), keys: map[string]key{
		"rs": {jose.RS256, rsaKey}, "ps": {jose.PS256, rsaKey}, "es": {jose.ES256, ecKey}, "ed": {jose.EdDSA, edKey},
	}}
	_, _ = rand.Read(i.secret)
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.secret, KeyID: "hs", Algorithm: "HS256"}}}
	for id, key := range i.keys {
		public := key.private.(crypto.Signer).Public()
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: public, KeyID: id, Algorithm: string(key.algorithm), Use: "sig"})
	}
	text, err := json.Marshal(set)
	require.NoError(t, err)
	i.jwks = string(text)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }))
	t.Cleanup(server.Close)
	i.uri = server.URL + "/keys"
	return i
}

// authentication accepts the issuer's tokens.
func (i *issuer) authentication() *v2.JWTAuthentication {
	return &v2.JWTAuthentication{Issuer: i.name, JWKSURI: i.uri}
}

func (i *issuer) accepted(authorizations ...*v2.JWTAuthorization) v2.JWT {
	return v2.JWT{Authentications: []*v2.JWTAuthentication{i.authentication()}, Authorizations: authorizations}
}

type claims map[string]any

// claims are those of a good token, with changes. A nil takes a claim away.
func (i *issuer) claims(changes claims) claims {
	all := claims{"iss": i.name, "sub": "alice", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, value any) bool { return value == nil })
	return all
}

// token is a good one with changes, signed by RS256.
func (i *issuer) token(changes claims) string { return i.sign("rs", i.claims(changes)) }

func (i *issuer) sign(id string, payload claims) string {
	key := i.keys[id]
	return signed(jose.SigningKey{Algorithm: key.algorithm, Key: jose.JSONWebKey{Key: key.private, KeyID: id}}, payload)
}

func signed(by jose.SigningKey, payload claims) string {
	signer := must(jose.NewSigner(by, (&jose.SignerOptions{}).WithType("JWT")))
	return must(must(signer.Sign(must(json.Marshal(payload)))).CompactSerialize())
}

// headed signs a token with a header of any form, by RS256.
func (i *issuer) headed(header, payload string) string {
	text := encode(header) + "." + encode(payload)
	hashed := crypto.SHA256.New()
	hashed.Write([]byte(text))
	signature := must(rsa.SignPKCS1v15(rand.Reader, i.keys["rs"].private.(*rsa.PrivateKey), crypto.SHA256, hashed.Sum(nil)))
	return text + "." + encode(string(signature))
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
