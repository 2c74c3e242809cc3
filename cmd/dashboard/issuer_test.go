package main

import (
	"bufio"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/internal/testing/oidctest"
)

const loginCookie = "__Host-rouse-login"

// atIssuer has users log in at an issuer, as its only client.
func atIssuer(t *testing.T, at *oidctest.Issuer) func(*options) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte(oidctest.Secret+"\n"), 0o600))
	return func(o *options) {
		o.issuer.URL, o.issuer.ClientID, o.issuer.SecretFile, o.issuer.CA, o.issuer.Name = at.URL, oidctest.ClientID, secret, at.CA(), "Example"
		o.issuer.Scopes = []string{"offline_access"}
	}
}

// startIssuer starts an issuer for one test. The API server does not trust it.
func startIssuer(t *testing.T) *oidctest.Issuer {
	t.Helper()
	at, err := oidctest.Start(oidctest.Behaviour{User: "jane", Lifetime: time.Hour})
	require.NoError(t, err)
	t.Cleanup(at.Close)
	return at
}

// begin begins a login, and returns the address of the issuer.
func (b *browser) begin(t *testing.T, body string) string {
	t.Helper()
	status, text := b.ask(t, http.MethodPost, "/api/v1/login/issuer", body)
	require.Equal(t, http.StatusOK, status, text)
	_, rest, _ := strings.Cut(text, `"location":"`)
	location, _, _ := strings.Cut(rest, `"`)
	return strings.ReplaceAll(location, `\u0026`, "&")
}

// visit goes to an address as a browser does that comes from another site, and returns where it leads.
func (b *browser) visit(t *testing.T, at string) string {
	t.Helper()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, http.NoBody)
	require.NoError(t, err)
	request.Header = http.Header{"Sec-Fetch-Site": {"cross-site"}, "Sec-Fetch-Mode": {"navigate"}}
	response, err := b.client.Do(request)
	require.NoError(t, err)
	_ = response.Body.Close()
	return response.Header.Get("Location")
}

// logInAtIssuer goes through a login, and returns the page that it ends at.
func (b *browser) logInAtIssuer(t *testing.T, body string) string {
	t.Helper()
	return b.visit(t, b.visit(t, b.begin(t, body)))
}

// says returns what the login page says, or that the user is logged in.
func (b *browser) says(t *testing.T) string {
	t.Helper()
	status, text := b.ask(t, http.MethodGet, "/api/v1/about", "")
	if status == http.StatusOK {
		return "logged in: " + text
	}
	require.Equal(t, http.StatusUnauthorized, status)
	require.Contains(t, text, `"issuer":"Example"`)
	return text
}

// grant lets a user of the issuer read in the namespace of a tenant.
func (r *rig) grant(t *testing.T, user string) (namespace string) {
	t.Helper()
	namespace = r.tenant(t, rules()).namespace
	require.NoError(t, r.Client.Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "issued"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: userPrefix + user}},
	}))
	return namespace
}

// requireNoSecrets fails the test if the log contains a token, a code, or a secret of the client.
func (r *rig) requireNoSecrets(t *testing.T, at *oidctest.Issuer) {
	t.Helper()
	for _, secret := range at.Given() {
		require.NotContains(t, r.log.String(), secret)
	}
}

// The issuer and the API server of these tests are real, and one trusts the other.
func TestAUserOfTheIssuerSeesWhatTheirRolesAllow(t *testing.T) { //nolint:paralleltest // others change the user of the issuer
	r := newRig(t, atIssuer(t, issued))
	other := r.tenant(t, rules())
	own := r.grant(t, "jane")
	b := r.browser(t)
	require.Contains(t, b.says(t), "log in first")
	require.Eventually(t, func() bool { // the API server reads the keys of issuers, and rights, a little later
		require.Equal(t, "/functions?state=asleep", b.logInAtIssuer(t, `{"namespace":"`+own+`","path":"/functions?state=asleep"}`))
		return strings.HasPrefix(b.says(t), "logged in")
	}, timeout, time.Second)
	require.Contains(t, b.says(t), `"name":"oidc:jane"`)
	status, text := b.ask(t, http.MethodGet, "/api/v1/snapshot", "")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, text, own)
	require.NotContains(t, text, other.namespace)
	status, _ = b.ask(t, http.MethodPost, "/api/v1/namespace", `{"namespace":"`+other.namespace+`"}`)
	require.Equal(t, http.StatusForbidden, status)
	require.Regexp(t, `logged in at the issuer.*oidc:jane`, r.log.String())

	_, text = b.ask(t, http.MethodPost, "/api/v1/logout", "{}")
	require.Contains(t, text, issued.URL+"/logout?client_id="+oidctest.ClientID)
	require.Contains(t, b.says(t), "log in first")

	b.logInAtIssuer(t, `{"path":"/"}`)
	require.Contains(t, b.says(t), "oidc:jane may not list Functions in all namespaces: name a namespace of yours")
	r.requireNoSecrets(t, issued)
}

func TestASessionGoesOnWithARenewedToken(t *testing.T) { //nolint:paralleltest // others change the user of the issuer
	issued.Change(func(b *oidctest.Behaviour) { b.Lifetime = 12 * time.Second })
	t.Cleanup(func() { issued.Change(func(b *oidctest.Behaviour) { b.Lifetime = time.Hour }) })
	r := newRig(t, atIssuer(t, issued))
	own := r.grant(t, "jane")
	b := r.browser(t)
	b.client.Timeout = 0
	require.Eventually(t, func() bool {
		b.logInAtIssuer(t, `{"namespace":"`+own+`","path":"/"}`)
		return strings.HasPrefix(b.says(t), "logged in")
	}, timeout, time.Second)
	stream := b.send(t, http.MethodGet, "/api/v1/live", "") //nolint:bodyclose // send does
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(stream.Body); lines.Scan(); { // until it ends
		}
	}()
	given := len(issued.Given())
	require.Eventually(t, func() bool { return len(issued.Given()) >= given+4 }, timeout, 100*time.Millisecond, "two renewals give two tokens each")
	require.Contains(t, b.says(t), "logged in")
	status, _ := b.ask(t, http.MethodGet, "/api/v1/functions/"+own+"/pricing", "")
	require.Equal(t, http.StatusOK, status, "it is read with the new token")
	select {
	case <-ended:
		require.Fail(t, "a renewal has ended the stream")
	default:
	}

	issued.Change(func(b *oidctest.Behaviour) { // the user was removed there
		b.Token = func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"invalid_grant"}`))
		}
	})
	t.Cleanup(func() { issued.Change(func(b *oidctest.Behaviour) { b.Token = nil }) })
	select {
	case <-ended:
	case <-time.After(timeout):
		require.Fail(t, "the session outlasts its token")
	}
	require.Contains(t, b.says(t), "your token is not valid any more")
	r.requireNoSecrets(t, issued)
}

func TestAFailedLoginIsExplainedWithItsRemedy(t *testing.T) {
	t.Parallel()
	answers := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	for name, c := range map[string]struct {
		change func(b *oidctest.Behaviour)
		says   string
	}{
		"an issuer that the API server does not trust": {func(*oidctest.Behaviour) {}, "it has to trust this issuer and its client ID"},
		"a user who says no":                           {func(b *oidctest.Behaviour) { b.Answer = map[string]string{"error": "access_denied"} }, "was denied"},
		"an issuer in trouble":                         {func(b *oidctest.Behaviour) { b.Answer = map[string]string{"error": "server_error"} }, "cannot log you in at the moment"},
		"a scope that is unknown":                      {func(b *oidctest.Behaviour) { b.Answer = map[string]string{"error": "invalid_scope"} }, "dashboard.oidc.scopes"},
		"an error that is markup":                      {func(b *oidctest.Behaviour) { b.Answer = map[string]string{"error": "<b>pay here</b>"} }, "refused the login (unknown)"},
		"an answer of another issuer":                  {func(b *oidctest.Behaviour) { b.Answer = map[string]string{"iss": "https://other.example.com"} }, "not for this login"},
		"an answer that hides its issuer":              {func(b *oidctest.Behaviour) { b.Answer = map[string]string{"iss": ""} }, "not for this login"},
		"an answer without a code":                     {func(b *oidctest.Behaviour) { b.Answer = map[string]string{"code": ""} }, "not for this login"},
		"a code of another login":                      {func(b *oidctest.Behaviour) { b.Answer = map[string]string{"code": "other"} }, "old or was used"},
		"another client's token":                       {func(b *oidctest.Behaviour) { b.Claims = map[string]any{"aud": "other"} }, "not for this login"},
		"a token that was given to another client": {
			func(b *oidctest.Behaviour) {
				b.Claims = map[string]any{"aud": []string{oidctest.ClientID, "other"}, "azp": "other"}
			}, "not for this login",
		},
		"another login's token":     {func(b *oidctest.Behaviour) { b.Claims = map[string]any{"nonce": "other"} }, "not for this login"},
		"a token without a nonce":   {func(b *oidctest.Behaviour) { b.Claims = map[string]any{"nonce": nil} }, "not for this login"},
		"another issuer's token":    {func(b *oidctest.Behaviour) { b.Claims = map[string]any{"iss": "https://other.example.com"} }, "not for this login"},
		"a clock that is late":      {func(b *oidctest.Behaviour) { b.Claims = map[string]any{"exp": time.Now().Add(-time.Minute).Unix()} }, "clocks of the issuer"},
		"a token that is too large": {func(b *oidctest.Behaviour) { b.Claims = map[string]any{"groups": strings.Repeat("g", 9<<10)} }, "more than 8 KiB"},
		"no ID token": {func(b *oidctest.Behaviour) {
			b.Token = answers(http.StatusOK, `{"access_token":"a","token_type":"Bearer"}`)
		}, "not for this login"},
		"an unsigned token": {
			func(b *oidctest.Behaviour) {
				b.Token = answers(http.StatusOK, `{"access_token":"a","token_type":"Bearer","id_token":"eyJhbGciOiJub25lIn0.e30."}`)
			}, "not for this login",
		},
		"a client that is unknown": {func(b *oidctest.Behaviour) { b.Token = answers(http.StatusUnauthorized, `{"error":"invalid_client"}`) }, "client ID and secret"},
		"an answer without an end": {
			func(b *oidctest.Behaviour) {
				b.Token = func(w http.ResponseWriter, _ *http.Request) {
					_, _ = w.Write([]byte(`{"access_token":"`))
					for range 4 << 10 {
						_, _ = w.Write([]byte(strings.Repeat("a", 1<<10)))
					}
				}
			}, "does not answer",
		},
		"a redirect to somewhere else": {
			func(b *oidctest.Behaviour) {
				b.Token = func(w http.ResponseWriter, r *http.Request) {
					http.Redirect(w, r, "https://127.0.0.1:1/token", http.StatusTemporaryRedirect)
				}
			}, "old or was used",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := startIssuer(t)
			at.Change(c.change)
			r := newRig(t, atIssuer(t, at))
			b := r.browser(t)
			require.Equal(t, "/events", b.logInAtIssuer(t, `{"path":"/events"}`))
			require.Contains(t, b.says(t), c.says)
			require.NotContains(t, r.log.String(), "<b>")
			r.requireNoSecrets(t, at)
		})
	}
}

func TestALoginBeginsAtAnIssuerThatAnswersAsItShould(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(b *oidctest.Behaviour)
		says   string
	}{
		"no answer": {func(b *oidctest.Behaviour) {
			b.All = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
		}, "Example does not answer"},
		"a stall": {func(b *oidctest.Behaviour) {
			b.All = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		}, "Example does not answer"},
		"nonsense": {func(b *oidctest.Behaviour) {
			b.All = func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }
		}, "does not answer"},
		"another name": {func(b *oidctest.Behaviour) { b.Metadata = map[string]any{"issuer": "https://other.example.com"} }, "dashboard.oidc.issuer"},
		"a page without TLS": {
			func(b *oidctest.Behaviour) {
				b.Metadata = map[string]any{"authorization_endpoint": "javascript:alert(1)"}
			}, "does not answer",
		},
		"a token endpoint without TLS": {func(b *oidctest.Behaviour) { b.Metadata = map[string]any{"token_endpoint": "http://127.0.0.1:1"} }, "does not answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := startIssuer(t)
			at.Change(c.change)
			b := newRig(t, atIssuer(t, at)).browser(t)
			status, text := b.ask(t, http.MethodPost, "/api/v1/login/issuer", `{"path":"/"}`)
			require.Equal(t, http.StatusServiceUnavailable, status, text)
			require.Contains(t, text, c.says)
		})
	}
}

func TestAnIssuerThatStallsInItsAnswerIsNotAskedAgainAtOnce(t *testing.T) {
	t.Parallel()
	at := startIssuer(t)
	at.Change(func(b *oidctest.Behaviour) {
		b.All = func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	})
	b := newRig(t, atIssuer(t, at)).browser(t)
	for range 3 {
		status, text := b.ask(t, http.MethodPost, "/api/v1/login/issuer", `{"path":"/"}`)
		require.Equal(t, http.StatusServiceUnavailable, status, text)
	}
	require.Less(t, at.Asked(), 3)
}

func TestAPublicClientLogsInByPKCEAlone(t *testing.T) {
	t.Parallel()
	at := startIssuer(t)
	at.Change(func(b *oidctest.Behaviour) { b.Public = true })
	configure := atIssuer(t, at)
	b := newRig(t, func(o *options) {
		configure(o)
		o.issuer.SecretFile = ""
	}).browser(t)
	b.logInAtIssuer(t, `{"path":"/"}`)
	require.Contains(t, b.says(t), "you have logged in at Example", "the issuer gave a token, which the API server does not trust")
}

func TestAnAnswerOfTheIssuerHoldsOnceInTheBrowserThatAsked(t *testing.T) {
	t.Parallel()
	at := startIssuer(t)
	r := newRig(t, atIssuer(t, at))
	attacker, victim := r.browser(t), r.browser(t)
	planted := attacker.visit(t, attacker.begin(t, `{"path":"/"}`))
	require.Equal(t, "/", victim.visit(t, planted))
	require.Contains(t, victim.says(t), "has begun in another browser", "who has begun no login gets no session of the attacker")

	victim = r.browser(t)
	own := victim.begin(t, `{"path":"/health"}`)
	require.Equal(t, "/health", victim.visit(t, planted))
	require.Contains(t, victim.says(t), "another login than the last one")
	before := at.Asked()
	back := victim.visit(t, own)
	require.Contains(t, back, "state=")
	require.Equal(t, "/health", victim.visit(t, back), "an attacker ends no login of the victim")
	require.Contains(t, victim.says(t), "the API server does not take its token")
	asked := at.Asked()
	require.Greater(t, asked, before)
	require.Equal(t, "/health", victim.visit(t, back))
	require.Equal(t, asked, at.Asked(), "a code is not sent twice")
}

func TestTheCookieOfALoginComesBackFromTheIssuerAndIsSeenByNoScript(t *testing.T) {
	t.Parallel()
	at := startIssuer(t)
	r := newRig(t, atIssuer(t, at))
	response := r.browser(t).send(t, http.MethodPost, "/api/v1/login/issuer", `{"path":"/"}`) //nolint:bodyclose // send does
	require.Len(t, response.Cookies(), 1)
	cookie := response.Cookies()[0]
	require.Equal(t, loginCookie, cookie.Name)
	require.True(t, cookie.HttpOnly && cookie.Secure)
	require.Equal(t, http.SameSiteLaxMode, cookie.SameSite, "the page of the issuer leads back here")
	require.Equal(t, 600, cookie.MaxAge)
	require.Empty(t, cookie.Domain)
}

func TestALoginAtTheIssuerIsAskedForByAPageOfThisOriginAndLeadsToOne(t *testing.T) {
	t.Parallel()
	at := startIssuer(t)
	r := newRig(t, atIssuer(t, at))
	b := r.browser(t)
	for _, path := range []string{
		"", "//evil.example.com", "/\\evil.example.com", "https://evil.example.com", "javascript:alert(1)", "/\tx", "evil", "/%5C%5Cevil.example.com",
		"/%2Fevil.example.com", "/login/callback?code=x", "/" + strings.Repeat("a", 1<<10), "///evil.example.com", "/%0d%0aSet-Cookie:a=b",
	} {
		body := `{"path":` + strings.ReplaceAll(`"`+strings.ReplaceAll(path, `\`, `\\`)+`"`, "\t", `\t`) + `}`
		status, text := b.ask(t, http.MethodPost, "/api/v1/login/issuer", body)
		require.Equal(t, http.StatusBadRequest, status, path+text)
	}
	status, text := b.ask(t, http.MethodPost, "/api/v1/login/issuer", `{"path":"/","namespace":"../x"}`)
	require.Equal(t, http.StatusBadRequest, status, text)
	b.header.Set("Origin", "https://dashboard.elsewhere.example.com")
	status, text = b.ask(t, http.MethodPost, "/api/v1/login/issuer", `{"path":"/"}`)
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, text, "open the dashboard there")
	b.header = http.Header{"Content-Type": {"application/json"}, "Sec-Fetch-Site": {"cross-site"}}
	status, _ = b.ask(t, http.MethodPost, "/api/v1/login/issuer", `{"path":"/"}`)
	require.Equal(t, http.StatusForbidden, status)
	require.Zero(t, at.Asked())
}

func TestLoginsAtTheIssuerAreLimitedByAddress(t *testing.T) {
	t.Parallel()
	at := startIssuer(t)
	configure := atIssuer(t, at)
	r := newRig(t, func(o *options) {
		configure(o)
		o.trustedProxies = []string{"127.0.0.0/8"}
	})
	attacker, user := r.browser(t), r.browser(t)
	attacker.header.Set("X-Forwarded-For", "198.51.100.1")
	user.header.Set("X-Forwarded-For", "203.0.113.7")
	var statuses []int
	for range 60 {
		status, _ := attacker.ask(t, http.MethodPost, "/api/v1/login/issuer", `{"path":"/"}`)
		statuses = append(statuses, status)
	}
	require.Contains(t, statuses, http.StatusTooManyRequests)
	require.NotContains(t, statuses, http.StatusServiceUnavailable)
	user.begin(t, `{"path":"/"}`)
	require.LessOrEqual(t, at.Asked(), 2, "metadata are read once")
}

func TestTheLoginAtTheIssuerAsksWithPKCEAStateAndANonceAndWithoutSecrets(t *testing.T) {
	t.Parallel()
	at := startIssuer(t)
	b := newRig(t, atIssuer(t, at)).browser(t)
	asked := func() url.Values {
		to, err := url.Parse(b.begin(t, `{"path":"/"}`))
		require.NoError(t, err)
		return to.Query()
	}
	first, second := asked(), asked()
	for _, fresh := range []string{"state", "nonce", "code_challenge"} {
		require.NotEqual(t, first.Get(fresh), second.Get(fresh), fresh)
		require.GreaterOrEqual(t, len(first.Get(fresh)), 26)
	}
	require.Equal(t, "S256", first.Get("code_challenge_method"))
	require.Equal(t, "openid offline_access", first.Get("scope"))
	require.Equal(t, b.rig.url+"/login/callback", first.Get("redirect_uri"))
	require.NotContains(t, first.Encode(), oidctest.Secret)
	require.False(t, slices.Contains(first["response_type"], "token"))
}
