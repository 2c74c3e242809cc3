package dev

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// issuer answers with its key on this machine, and signs tokens.
type issuer struct {
	*httptest.Server

	key *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	point, err := key.PublicKey.Bytes()
	require.NoError(t, err)
	set := `{"keys":[{"kty":"EC","crv":"P-256","kid":"1","x":"` + encoded(point[1:33]) + `","y":"` + encoded(point[33:]) + `"}]}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(set)) }))
	t.Cleanup(server.Close)
	return &issuer{server, key}
}

func encoded(bytes []byte) string { return base64.RawURLEncoding.EncodeToString(bytes) }

func (i *issuer) token(t *testing.T) string {
	t.Helper()
	text := encoded([]byte(`{"alg":"ES256","kid":"1"}`)) + "." + encoded([]byte(`{"iss":"`+i.URL+`","sub":"Ada","exp":4102444800}`))
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, sum[:])
	require.NoError(t, err)
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + encoded(signature)
}

func tokensOf(uri string) string {
	return strings.ReplaceAll(`[{path: /*, methods: [GET], jwt: {authentications: [{issuer: "URI", jwksUri: "URI/keys"}]}}]`, "URI", uri)
}

func TestTokensOfAnIssuerOnThisMachineAreAccepted(t *testing.T) {
	t.Parallel()
	by := newIssuer(t)
	f := runAPIRules(t, map[string]string{"fn.yaml": function("price"), "rule.yaml": apiRule("price", "price", tokensOf(by.URL))})
	status, _ := f.get("price.localhost", "/")
	require.Equal(t, http.StatusForbidden, status, "a request without a token")
	status, _ = f.get("price.localhost", "/", "Authorization", "Bearer "+newIssuer(t).token(t))
	require.Equal(t, http.StatusUnauthorized, status, "a token of another issuer")
	status, _ = f.get("price.localhost", "/", "Authorization", "Bearer "+by.token(t))
	require.Equal(t, http.StatusOK, status)
	require.Empty(t, f.problems())
}

func TestKeysThatCannotBeFetchedAreReportedWithTheirLine(t *testing.T) {
	t.Parallel()
	gone := newIssuer(t)
	gone.Close()
	f := runAPIRules(t, map[string]string{"fn.yaml": function("price"), "rule.yaml": apiRule("price", "price", tokensOf(gone.URL))})
	f.await("the issuer's keys are reported", func() bool { return len(f.problems()) > 0 })
	require.Equal(t, []string{
		"warning: rule.yaml:8: APIRule shop/price: Its keys cannot be fetched, and tokens by them are refused: the connection failed",
	}, f.problems())
	f.write(map[string]string{"rule.yaml": apiRule("price", "price", open)})
	f.await("it is over", func() bool { return len(f.problems()) == 0 })
}
