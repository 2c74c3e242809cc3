package apirules

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
	"github.com/rouse-run/rouse/internal/httplimit"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// withAuthorizers is a gateway whose rule for /locked asks authorizers, named by their index.
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
		require.NotContains(t, backend, name, "a caller says nothing in the place of an authorizer")
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
