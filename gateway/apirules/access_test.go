package apirules

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/httplimit"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

const issuerName = "https://issuer.example"

// issuer signs tokens and serves its keys.
type issuer struct {
	*httptest.Server

	key  ed25519.PrivateKey
	keys []byte
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	public, key, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	keys, err := json.Marshal(map[string]any{"keys": []any{map[string]string{
		"kty": "OKP", "crv": "Ed25519", "kid": "1", "alg": "EdDSA", "use": "sig", "x": base64.RawURLEncoding.EncodeToString(public),
	}}})
	require.NoError(t, err)
	i := &issuer{key: key, keys: keys}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(keys) }))
	t.Cleanup(i.Close)
	return i
}

// bearer returns the header of a valid token with additional claims.
func (i *issuer) bearer(claims map[string]any) string { return "Bearer " + i.token(claims) }

func (i *issuer) token(claims map[string]any) string {
	all := map[string]any{"iss": issuerName, "sub": "alice", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	encode := func(value any) string {
		text, _ := json.Marshal(value)
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := encode(map[string]string{"alg": "EdDSA", "kid": "1"}) + "." + encode(all)
	return signed + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(i.key, []byte(signed)))
}

func (i *issuer) jwt(authorizations ...*v2.JWTAuthorization) *v2.JWT {
	return &v2.JWT{
		Authentications: []*v2.JWTAuthentication{{Issuer: issuerName, JWKSURI: i.URL}}, Authorizations: authorizations,
	}
}

// withTokens has a rule for tokens.
func withTokens(to apirule.Backend, path string, jwt *v2.JWT) apirule.Rule {
	return apirule.Rule{
		Spec: &v2.Rule{Path: path, Methods: []v2.Method{"GET"}, JWT: jwt}, Backend: to, Timeout: 10 * time.Second,
	}
}

// fetchKeys runs the keys of the issuers until the end of the test.
func (f *fixture) fetchKeys() {
	ctx, stop := context.WithCancel(f.t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.exposed.deps.Keys.Run(ctx)
	}()
	f.t.Cleanup(func() {
		stop()
		<-ended
	})
}

func TestTokensDecideWhoMay(t *testing.T) {
	t.Parallel()
	f, i := start(t), newIssuer(t)
	f.fetchKeys()
	f.serve(shopHost,
		withTokens(f.service.address, "/orders", i.jwt(&v2.JWTAuthorization{RequiredScopes: []string{"read"}})),
		open(f.service.address, "/*", "GET"))
	good := i.bearer(map[string]any{"scope": "read write"})
	other := newIssuer(t)
	for name, tc := range map[string]struct {
		token  string
		status int
		text   string
	}{
		"no token":            {"", 403, "RBAC: access denied"},
		"another scheme":      {"Basic YTpi", 403, "RBAC: access denied"},
		"a scheme in lower":   {"bearer x", 401, "Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections"},
		"a good one in lower": {"bearer" + strings.TrimPrefix(good, "Bearer"), 200, "catalog"},
		"no JWT":              {"Bearer x", 401, "Jwt is not in the form of Header.Payload.Signature with two dots and 3 sections"},
		"another issuer":      {i.bearer(map[string]any{"iss": "x"}), 401, "Jwt issuer is not configured"},
		"another key":         {other.bearer(nil), 401, "Jwt verification fails"},
		"a token that ended":  {i.bearer(map[string]any{"exp": 1}), 401, "Jwt is expired"},
		"no scope":            {i.bearer(nil), 403, "RBAC: access denied"},
		"no subject":          {i.bearer(map[string]any{"scope": "read", "sub": ""}), 403, "RBAC: access denied"},
		"a token that may":    {good, 200, "catalog"},
		"the same once again": {good, 200, "catalog"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var headers []string
			if tc.token != "" {
				headers = []string{"Authorization", tc.token}
			}
			got := f.get("/orders?a=b", headers...)
			require.Equal(t, tc.status, got.StatusCode)
			require.Equal(t, tc.text, got.text)
			challenge := ""
			if tc.status == http.StatusUnauthorized {
				challenge = `Bearer realm="http://shop.example.com/orders", error="invalid_token"`
			}
			require.Equal(t, challenge, got.Header.Get("WWW-Authenticate"))
		})
	}
	t.Run("the token goes on to the backend", func(t *testing.T) {
		t.Parallel()
		require.Equal(t, http.StatusOK, f.get("/orders", "Authorization", good).StatusCode)
		require.Equal(t, "catalog", f.get("/else", "Authorization", "Bearer bad").text, "and is ignored where none is asked for")
	})
}

// A backend may read any of these as its caller's.
func TestABackendGetsNoTokenThatWasNotChecked(t *testing.T) {
	t.Parallel()
	f, i := start(t), newIssuer(t)
	f.fetchKeys()
	named := i.jwt()
	named.Authentications[0].FromHeaders = []v2.JWTHeader{{Name: "X-User-Jwt"}}
	f.serve(shopHost, withTokens(f.service.address, "/orders", i.jwt()), withTokens(f.service.address, "/named", named))
	good := i.token(nil)
	for name, tc := range map[string]struct {
		target  string
		headers []string
		status  int
	}{
		"bearer in lower case before":   {"/orders", []string{"Authorization", "bearer forged", "Authorization", "Bearer " + good}, 401},
		"a tab before":                  {"/orders", []string{"Authorization", "Bearer\tforged", "Authorization", "Bearer " + good}, 401},
		"another scheme after":          {"/orders", []string{"Authorization", "Bearer " + good, "Authorization", "JWT forged"}, 401},
		"a header next to the query":    {"/orders?access_token=" + good, []string{"Authorization", "bearer forged"}, 401},
		"no scheme next to the query":   {"/orders?access_token=" + good, []string{"Authorization", "forged"}, 200},
		"a semicolon":                   {"/orders?access_token=forged;x&access_token=" + good, nil, 400},
		"a bad escape":                  {"/orders?access_token=forged%zz&access_token=" + good, nil, 400},
		"an escaped name":               {"/orders?access%5Ftoken=forged", []string{"Authorization", "Bearer " + good}, 401},
		"an underscore in the header":   {"/named", []string{"X-User_jwt", "forged", "X-User-Jwt", good}, 200},
		"Authorization next to another": {"/named", []string{"Authorization", "bearer forged", "X-User-Jwt", good}, 200},
		"access_token next to another":  {"/named?access_token=forged", []string{"X-User-Jwt", good}, 401},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.get(tc.target, tc.headers...)
			require.Equal(t, tc.status, got.StatusCode, got.text)
			if tc.status != http.StatusOK {
				require.Zero(t, f.service.requests())
				return
			}
			forwarded := f.service.take(t)
			require.NotContains(t, fmt.Sprint(forwarded.Header, forwarded.URL), "forged")
			require.Contains(t, fmt.Sprint(forwarded.Header, forwarded.URL), good)
		})
	}
}

// A trailer comes after the token was checked, and some backends add it to the header.
func TestABackendGetsNothingInATrailerThatItsRuleJudgesInTheHeader(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	named := i.jwt()
	named.Authentications[0].FromHeaders = []v2.JWTHeader{{Name: "X-User-Jwt"}}
	f := withAuthorizers(t, func(a *Authorizer) {
		a.IncludeRequestHeadersInCheck, a.HeadersToUpstreamOnAllow = []string{"X-Shop-*"}, []string{"X-User"}
	}, named, says(""))
	f.fetchKeys()
	trailers := make(chan http.Header, 1)
	f.service.answers(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		trailers <- r.Trailer
	})
	forged := []string{
		"Authorization", "Proxy-Authorization", "Cookie", "Host", "Content-Type", "Connection", "X-User-Jwt", "X_user_jwt", "X-Forwarded-For",
		"X_Forwarded_Host", "Forwarded", "X-Real-Ip", "Rouse-Via", "X-Rule", "X_rule", "X-Shop-Tenant", "X-User",
	}
	for name, declared := range map[string][]string{"declared": forged, "not declared": nil} {
		head := strings.Join(append(slices.Clone(declared), "X-Sum"), ", ")
		conn := f.dial()
		_, err := io.WriteString(conn, "POST /locked/x HTTP/1.1\r\nHost: "+shopHost+"\r\nX-User-Jwt: "+i.token(nil)+"\r\nTrailer: "+head+"\r\n"+
			"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"+strings.Join(forged, ": forged\r\n")+": forged\r\nX-Sum: 42\r\n\r\n")
		require.NoError(t, err)
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusOK, answer.StatusCode, name)
		require.Equal(t, http.Header{"X-Sum": {"42"}}, <-trailers, name)
	}
}

func TestTheChallengeHasTheSchemeThatTheCallerUsed(t *testing.T) {
	t.Parallel()
	f, i := start(t), newIssuer(t)
	f.serve(shopHost, withTokens(f.service.address, "/orders", i.jwt()))
	got := f.get("/orders?access_token=secret", "X-Forwarded-Proto", "https")
	require.Equal(t, http.StatusUnauthorized, got.StatusCode)
	require.Equal(t, `Bearer realm="https://shop.example.com/orders", error="invalid_token"`, got.Header.Get("WWW-Authenticate"))
}

func TestARuleForTokensThatCannotBeServedIsClosedAlone(t *testing.T) {
	t.Parallel()
	for name, jwt := range map[string]*v2.JWT{
		"a URI with a password": {Authentications: []*v2.JWTAuthentication{{Issuer: issuerName, JWKSURI: "https://a:secret@issuer.example/keys"}}},
		"a path for a URI":      {Authentications: []*v2.JWTAuthentication{{Issuer: issuerName, JWKSURI: "/keys"}}},
		"no authentication":     {},
		"an empty entry": {
			Authentications: []*v2.JWTAuthentication{{Issuer: issuerName, JWKSURI: "https://issuer.example"}}, Authorizations: []*v2.JWTAuthorization{nil},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			f.serve(shopHost, withTokens(f.service.address, "/orders", jwt), open(f.service.address, "/*", "GET"))
			require.Equal(t, http.StatusServiceUnavailable, f.get("/orders").StatusCode)
			require.Equal(t, "catalog", f.get("/").text)
			problems := f.exposed.Loaded()[types.NamespacedName{Namespace: "shop", Name: shopHost}].Problems
			require.Len(t, problems, 1)
			require.Contains(t, problems[0].Attribute, ".spec.rules[0].jwt.auth")
			require.Equal(t, apirule.RuleAt(0), problems[0].Closes)
			require.NotContains(t, problems.String(), "secret")
		})
	}
}

func TestARuleThatNamesNoWayInIsClosed(t *testing.T) {
	t.Parallel()
	f, no := start(t), false
	for _, spec := range []v2.Rule{{}, {NoAuth: &no}, {ExtAuth: &v2.ExtAuth{}}, {ExtAuth: &v2.ExtAuth{Authorizers: []string{"unknown"}}}} {
		spec.Path, spec.Methods = "/*", []v2.Method{"GET"}
		f.serve(shopHost, apirule.Rule{Spec: &spec, Backend: f.service.address, Timeout: time.Second})
		require.Equal(t, http.StatusServiceUnavailable, f.get("/").StatusCode)
	}
}

func TestIssuersWithUnreachableKeysAreReported(t *testing.T) {
	t.Parallel()
	f, i := start(t), newIssuer(t)
	gone := newIssuer(t)
	gone.Close()
	f.serve(shopHost, withTokens(f.service.address, "/good", i.jwt()), withTokens(f.service.address, "/bad", gone.jwt()))
	f.fetchKeys()
	name := types.NamespacedName{Namespace: "shop", Name: shopHost}
	require.Eventually(t, func() bool { return len(f.exposed.Loaded()[name].Problems) > 0 }, time.Minute, time.Millisecond)
	require.Equal(t, apirule.Problems{{
		Attribute: ".spec.rules[1].jwt.authentications[0].jwksUri", Closes: apirule.RuleAt(1),
		Message: "Its keys cannot be fetched, and tokens by them are refused: the connection failed",
	}}, f.exposed.Loaded()[name].Problems)
	require.Equal(t, http.StatusOK, f.get("/good", "Authorization", i.bearer(nil)).StatusCode, "others are not held up")
}

func TestUnusedKeysAreReported(t *testing.T) {
	t.Parallel()
	f, i := start(t), newIssuer(t)
	costly := `,{"kty":"RSA","kid":"2","n":"` + base64.RawURLEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, 512)) + `","e":"f____w"}]}`
	i.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(append(bytes.TrimSuffix(i.keys, []byte("]}")), costly...))
	})
	f.serve(shopHost, withTokens(f.service.address, "/*", i.jwt()))
	f.fetchKeys()
	require.Equal(t, http.StatusOK, f.get("/", "Authorization", i.bearer(nil)).StatusCode)
	require.Equal(t, apirule.Problems{{
		Attribute: ".spec.rules[0].jwt.authentications[0].jwksUri", Closes: apirule.RuleAt(0),
		Message: "Not all of its keys are used, and tokens by the others are refused: " +
			"an RSA key has an exponent larger than 65537: the issuer has to make keys with 65537",
	}}, f.exposed.Loaded()[types.NamespacedName{Namespace: "shop", Name: shopHost}].Problems)
}

func TestSetReusesUnchangedRules(t *testing.T) {
	t.Parallel()
	f, i := start(t), newIssuer(t)
	tokens, others := exposureOf(shopHost, withTokens(f.service.address, "/*", i.jwt())), exposureOf("other.example.com", open(f.service.address, "/*", "GET"))
	f.exposed.Set([]apirule.Exposure{tokens, others})
	before := f.exposed.current.Load()
	others.Generation = 2
	f.exposed.Set([]apirule.Exposure{tokens, others})
	after := f.exposed.current.Load()
	require.Same(t, before.loaded[tokens.APIRule], after.loaded[tokens.APIRule], "with its validators")
	require.NotSame(t, before.loaded[others.APIRule], after.loaded[others.APIRule])
}

// withAuthorizers returns a gateway whose rule for /locked has authorizers, named by their index.
func withAuthorizers(t *testing.T, change func(*Authorizer), restrictions *v2.JWT, handlers ...http.Handler) *fixture {
	t.Helper()
	var all []Authorizer
	var names []string
	for i, handler := range handlers {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		at, err := netip.ParseAddrPort(server.Listener.Addr().String())
		require.NoError(t, err)
		each := Authorizer{Name: string(rune('a' + i)), Service: at.Addr().String(), Port: int32(at.Port())}
		if change != nil {
			change(&each)
		}
		require.Empty(t, each.check())
		all, names = append(all, each), append(names, each.Name)
	}
	f := start(t, func(_ *Deps, options *Options) { options.Authorizers = all })
	f.serve(shopHost, apirule.Rule{
		Spec: &v2.Rule{
			Path: "/locked/{**}", Methods: []v2.Method{"GET", "POST"}, ExtAuth: &v2.ExtAuth{Authorizers: names, Restrictions: restrictions},
			Request: &v2.Request{Headers: map[string]string{"X-Rule": "1"}},
		}, Backend: f.service.address, Timeout: 10 * time.Second,
	}, open(f.service.address, "/open", "GET"))
	return f
}

func TestAnAuthorizerSeesTheHeadOfARequest(t *testing.T) {
	t.Parallel()
	asked := &backend{handler: says("")}
	f := withAuthorizers(t, func(a *Authorizer) {
		a.Path, a.IncludeRequestHeadersInCheck = "/check", []string{"Cookie", "X-Shop-*", "*-Id", "X-Forwarded-For", "X-Forwarded-Host"}
		a.IncludeAdditionalHeadersInCheck = map[string]string{"X-Shop-Gateway": "yes"}
	}, nil, asked)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.server.URL+"/locked/%61?b=c", strings.NewReader("secret body"))
	require.NoError(t, err)
	r.Host = shopHost
	for _, name := range []string{"Authorization", "Cookie", "X-Shop-Tenant", "X-Request-Id", "X-Other", "X-Shop-Gateway", "Rouse-Via"} {
		r.Header.Set(name, "sent")
	}
	f.service.answers(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	require.Equal(t, "secret body", f.send(r).text)

	got := asked.last(t)
	require.Equal(t, "POST", got.Method)
	require.Equal(t, "/check/locked/a?b=c", got.RequestURI)
	require.Equal(t, shopHost, got.Host)
	require.Zero(t, got.ContentLength)
	require.Equal(t, "yes", got.Header.Get("X-Shop-Gateway"))
	require.Equal(t, "127.0.0.1", got.Header.Get("X-Forwarded-For"))
	require.Equal(t, shopHost, got.Header.Get("X-Forwarded-Host"))
	for _, name := range []string{"Authorization", "Cookie", "X-Shop-Tenant", "X-Request-Id"} {
		require.Equal(t, "sent", got.Header.Get(name), name)
	}
	for _, name := range []string{"X-Other", "Rouse-Via", "User-Agent"} {
		require.NotContains(t, got.Header, name)
	}
}

func TestAnAuthorizerThatAllowsAddsHeaders(t *testing.T) {
	t.Parallel()
	f := withAuthorizers(t, func(a *Authorizer) {
		a.HeadersToUpstreamOnAllow = []string{"X-User", "X-Group-*", "Authorization", "Rouse-*", "X-Rule"}
		a.HeadersToDownstreamOnAllow = []string{"Set-Cookie", "X-Both", "Content-Length", "Access-Control-Allow-Origin"}
	}, nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		header := w.Header()
		header.Set("X-User", "alice")
		header.Set("Rouse-Via", "eventbridge")
		header.Set("X-Rule", "authorizer")
		header.Set("X-Both", "authorizer")
		header.Set("X-Unlisted", "1")
		header.Set("Access-Control-Allow-Origin", "*")
		header.Add("Set-Cookie", "a=1")
		header.Add("Set-Cookie", "b=2")
		_, _ = io.WriteString(w, "ok")
	}))
	f.service.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Both", "backend")
		_, _ = io.WriteString(w, "catalog")
	})
	got := f.get("/locked/", "X-User", "forged", "X_user", "forged", "X-Group-Admin", "forged", "Authorization", "Bearer x")
	require.Equal(t, "catalog", got.text)
	require.Equal(t, []string{"a=1", "b=2"}, got.Header.Values("Set-Cookie"))
	require.Equal(t, []string{"authorizer"}, got.Header.Values("X-Both"))
	require.NotContains(t, got.Header, "X-Unlisted")
	require.Empty(t, corsHeaders(got.Header))

	backend := f.service.last(t).Header
	require.Equal(t, []string{"alice"}, backend.Values("X-User"))
	require.Equal(t, "1", backend.Get("X-Rule"), "the rule has the last word")
	require.Equal(t, "Bearer x", backend.Get("Authorization"))
	for _, name := range []string{"X_user", "X-Group-Admin", "Rouse-Via", "X-Unlisted"} {
		require.NotContains(t, backend, name, "a caller cannot set the headers of an authorizer")
	}
}

func TestAnAuthorizerAndTheBackendSeeTheSameCredential(t *testing.T) {
	t.Parallel()
	asked := &backend{handler: says("")}
	f := withAuthorizers(t, func(a *Authorizer) { a.IncludeRequestHeadersInCheck = []string{"X-Api-Key"} }, nil, asked)
	got := f.get("/locked/", "Authorization", "Bearer good", "Authorization", "Bearer forged")
	require.Equal(t, http.StatusUnauthorized, got.StatusCode)
	require.Equal(t, "Found multiple Authorization headers", got.text)
	require.Zero(t, asked.requests())

	require.Equal(t, http.StatusOK, f.get("/locked/", "X-Api-Key", "good", "X_Api_Key", "forged", "X_Other", "kept").StatusCode)
	header := f.service.take(t).Header
	require.Equal(t, []string{"good"}, header.Values("X-Api-Key"))
	require.NotContains(t, header, "X_api_key")
	require.Contains(t, header, "X_other")

	require.Equal(t, http.StatusOK, f.get("/locked/", "X-Api-Key", "good", "X-Api-Key", "forged", "X-Other", "a", "X-Other", "b").StatusCode)
	header = f.service.take(t).Header
	require.Equal(t, []string{"good, forged"}, header["X-Api-Key"])
	require.Equal(t, header["X-Api-Key"], asked.last(t).Header["X-Api-Key"])
	require.Equal(t, []string{"a", "b"}, header["X-Other"], "what no authorizer sees stays as it is")
}

func TestWhatAnAuthorizerGivesTheBackendStaysBesideAToken(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	f := withAuthorizers(t, func(a *Authorizer) { a.HeadersToUpstreamOnAllow = []string{"Authorization"} }, i.jwt(),
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "session" {
				w.Header().Set("Authorization", "Basic YTpi")
			}
		}))
	f.fetchKeys()
	target := "/locked/?access_token=" + i.token(nil)
	require.Equal(t, http.StatusOK, f.get(target, "Authorization", "session").StatusCode)
	require.Equal(t, "Basic YTpi", f.service.take(t).Header.Get("Authorization"))
	require.Equal(t, http.StatusOK, f.get(target, "Authorization", "forged").StatusCode)
	require.NotContains(t, f.service.take(t).Header, "Authorization")
}

func TestCookiesOfAuthorizersAndBackendsAddUp(t *testing.T) {
	t.Parallel()
	sets := func(cookie string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Set-Cookie", cookie) }
	}
	f := withAuthorizers(t, func(a *Authorizer) { a.HeadersToDownstreamOnAllow = []string{"Set-Cookie"} }, nil, sets("a=1"), sets("b=2"))
	f.service.answers(sets("c=3"))
	require.ElementsMatch(t, []string{"a=1", "b=2", "c=3"}, f.get("/locked/").Header.Values("Set-Cookie"))
}

func TestAnAuthorizerThatDeniesIsTheAnswer(t *testing.T) {
	t.Parallel()
	deny := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "https://login.example")
		w.Header().Set("X-Why", "because")
		w.Header().Set("Rouse-Refused", "timeout")
		w.WriteHeader(http.StatusFound)
		_, _ = io.WriteString(w, "log in")
	})
	for name, tc := range map[string]struct {
		listed []string
		why    string
	}{"with all headers": {nil, "because"}, "with those listed": {[]string{"X-Other"}, ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := withAuthorizers(t, func(a *Authorizer) { a.HeadersToDownstreamOnDeny = tc.listed }, nil, deny)
			got := f.get("/locked/")
			require.Equal(t, http.StatusFound, got.StatusCode)
			require.Equal(t, "log in", got.text)
			require.Equal(t, "https://login.example", got.Header.Get("Location"))
			require.Equal(t, tc.why, got.Header.Get("X-Why"))
			require.NotContains(t, got.Header, "Rouse-Refused")
			require.Zero(t, f.service.requests())
			require.Equal(t, "catalog", f.get("/open").text)
		})
	}
}

func TestAnAuthorizerThatDoesNotAnswerAsItShouldDenies(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"an error of its own": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"no answer":           func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"headers without an end": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("a", 2*httplimit.MaxHeadBytes))
		},
		"a body without an end": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 4096)); err != nil {
					return
				}
			}
		},
		"another protocol": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "websocket")
			w.WriteHeader(http.StatusSwitchingProtocols)
		},
		"half a body": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "half")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := withAuthorizers(t, nil, nil, handler)
			got := f.get("/locked/")
			require.Equal(t, http.StatusForbidden, got.StatusCode)
			require.Empty(t, got.text)
			require.Zero(t, f.service.requests())
		})
	}
}

func TestAnAuthorizerThatIsSlowDeniesAndHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{})
	f := withAuthorizers(t, func(a *Authorizer) { a.TimeoutSeconds = 1 }, nil, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(entered)
		<-r.Context().Done()
	}))
	answers := make(chan answer, 1)
	go func() { answers <- f.get("/locked/") }()
	<-entered
	require.Equal(t, "catalog", f.get("/open").text)
	require.Equal(t, http.StatusForbidden, (<-answers).StatusCode)
}

func TestAnAuthorizerThatIsNotThereDenies(t *testing.T) {
	t.Parallel()
	port := int32(loopback.Reserve(t))
	f := start(t, func(_ *Deps, o *Options) {
		o.Authorizers = []Authorizer{{Name: "a", Service: loopback.Host, Port: port}}
	})
	f.serve(shopHost, apirule.Rule{
		Spec:    &v2.Rule{Path: "/*", Methods: []v2.Method{"GET"}, ExtAuth: &v2.ExtAuth{Authorizers: []string{"a"}}},
		Backend: f.service.address, Timeout: 10 * time.Second,
	})
	require.Equal(t, http.StatusForbidden, f.get("/").StatusCode)
}

func TestAllAuthorizersAndThenTheTokenHaveToAllow(t *testing.T) {
	t.Parallel()
	first, second, i := &backend{handler: says("")}, &backend{handler: says("")}, newIssuer(t)
	f := withAuthorizers(t, nil, i.jwt(), first, second)
	f.fetchKeys()
	require.Equal(t, "catalog", f.get("/locked/", "Authorization", i.bearer(nil)).text)
	require.Equal(t, http.StatusForbidden, f.get("/locked/").StatusCode, "without a token")
	require.Equal(t, http.StatusUnauthorized, f.get("/locked/", "Authorization", "Bearer x").StatusCode)
	require.Equal(t, 3, second.requests())

	first.answers(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	require.Equal(t, http.StatusTeapot, f.get("/locked/", "Authorization", i.bearer(nil)).StatusCode)
	require.Equal(t, 3, second.requests(), "who is denied is asked about no further")
	require.Equal(t, 1, f.service.requests())
}

func TestAuthorizersAreReadStrictly(t *testing.T) {
	t.Parallel()
	all, err := ParseAuthorizers([]byte(`[{"name":"opa","service":"opa.policy.svc","port":8181,"path":"/v1","timeoutSeconds":2,
		"includeRequestHeadersInCheck":["cookie","x-*","*-id"],"headersToUpstreamOnAllow":["x-user"]}]`))
	require.NoError(t, err)
	require.Equal(t, "opa", all[0].Name)
	require.Equal(t, 2*time.Second, all[0].timeout())
	for text, problem := range map[string]string{
		`{}`: "authorizers: read the list", `[{"nam":"x"}]`: `unknown field "nam"`, `[] []`: "more than one list",
		`[{"service":"a","port":1}]`:                                                              "authorizers[0].name: is empty",
		`[{"name":"a","port":1}]`:                                                                 "authorizers[0].service",
		`[{"name":"a","service":"http://a/b","port":1}]`:                                          "authorizers[0].service",
		`[{"name":"a","service":"a"}]`:                                                            "authorizers[0].port",
		`[{"name":"a","service":"a","port":1,"path":"check"}]`:                                    "authorizers[0].path",
		`[{"name":"a","service":"a","port":1,"path":"/a?b"}]`:                                     "authorizers[0].path",
		`[{"name":"a","service":"a","port":1,"timeoutSeconds":61}]`:                               "authorizers[0].timeoutSeconds",
		`[{"name":"a","service":"a","port":1,"headersToUpstreamOnAllow":["a*b"]}]`:                "authorizers[0].headersToUpstreamOnAllow",
		`[{"name":"a","service":"a","port":1,"headersToDownstreamOnDeny":["*"]}]`:                 "authorizers[0].headersToDownstreamOnDeny",
		`[{"name":"a","service":"a","port":1,"includeAdditionalHeadersInCheck":{"a":"\n"}}]`:      "authorizers[0].includeAdditionalHeadersInCheck",
		`[{"name":"a","service":"a","port":1},{"name":"a","service":"b","port":1}]`:               "authorizers[1].name",
		"[" + strings.Repeat(`{"name":"a"},`, maxAuthorizers) + `{"name":"a"}]`:                   "at most 64",
		`[{"name":"a","service":"a","port":1,"includeRequestHeadersInCheck":["a b"]}]`:            "authorizers[0].includeRequestHeadersInCheck",
		`[{"name":"a","service":"a","port":1,"headersToDownstreamOnAllow":["` + "\u00e9" + `"]}]`: "authorizers[0].headersToDownstreamOnAllow",
	} {
		_, err := ParseAuthorizers([]byte(text))
		require.ErrorContains(t, err, problem, text)
	}
}
