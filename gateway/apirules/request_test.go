package apirules

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
)

// setting is an open rule that changes requests.
func setting(to apirule.Backend, request *v2.Request) apirule.Rule {
	rule := open(to, "/*", "GET", "POST")
	rule.Spec.Request = request
	return rule
}

func TestARuleReplacesHeadersAndAllCookies(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, setting(f.service.address, &v2.Request{
		Headers: map[string]string{"x-tenant": "shop", "X-New": "1"}, Cookies: map[string]string{"b": "2", "a": "1"},
	}))
	f.get("/", "X-Tenant", "forged", "X-Tenant", "twice", "X_tenant", "forged", "Cookie", "mine=1", "X-Other", "kept")
	got := f.service.last(t)
	require.Equal(t, []string{"shop"}, got.Header["X-Tenant"])
	require.Equal(t, []string{"1"}, got.Header["X-New"])
	require.Equal(t, []string{"a=1; b=2"}, got.Header["Cookie"])
	require.Equal(t, []string{"kept"}, got.Header["X-Other"])
	require.NotContains(t, got.Header, "X_tenant", "which some servers take for the same")
	require.Equal(t, shopHost, got.Host)
}

func TestARuleMayReplaceTheHost(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, setting(f.service.address, &v2.Request{Headers: map[string]string{"host": "catalog.internal"}}))
	require.Equal(t, http.StatusOK, f.get("/").StatusCode)
	require.Equal(t, "catalog.internal", f.service.last(t).Host)
	require.Equal(t, shopHost, f.service.last(t).Header.Get("X-Forwarded-Host"))
}

func TestHeadersThatCannotBeSetCloseTheirRuleAlone(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]*v2.Request{
		"a line break":        {Headers: map[string]string{"X-A": "1\r\nX-B: 2"}},
		"no name":             {Headers: map[string]string{"": "1"}},
		"a name with a space": {Headers: map[string]string{"X A": "1"}},
		"a header of ours":    {Headers: map[string]string{"rouse-via": "eventbridge"}},
		"a header of a hop":   {Headers: map[string]string{"Transfer-Encoding": "chunked"}},
		"a bad host":          {Headers: map[string]string{"Host": "a b"}},
		"a bad cookie":        {Cookies: map[string]string{"a": "\n"}},
		"too much":            {Headers: map[string]string{"X-A": strings.Repeat("a", maxSetBytes)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			good := open(f.service.address, "/good", "GET")
			f.serve(shopHost, good, setting(f.service.address, request))
			require.Equal(t, http.StatusServiceUnavailable, f.get("/").StatusCode)
			require.Equal(t, "catalog", f.get("/good").text)
			for _, loaded := range f.exposed.Loaded() {
				require.Len(t, loaded.Problems, 1)
				require.Contains(t, loaded.Problems[0].Attribute, ".spec.rules[1].request")
				require.Equal(t, apirule.RuleAt(1), loaded.Problems[0].Closes)
			}
		})
	}
}

func TestBackendsLearnTheHostAndTheWayOfARequest(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.exposed.Set([]apirule.Exposure{
		exposureOf(shopHost, open(f.service.address, "/*", "GET")), exposureOf("*.example.com", open(f.service.address, "/*", "GET")),
	})
	f.do("GET", shopHost+":8080", "/", "X-Forwarded-For", "192.0.2.1", "X-Forwarded-Proto", "https", "X-Forwarded-Host", "forged",
		"X_Forwarded_Host", "forged", "X_Forwarded_For", "forged", "User-Agent", "curl")
	got := f.service.last(t)
	require.Equal(t, shopHost+":8080", got.Host, "is kept")
	require.Equal(t, []string{shopHost}, got.Header["X-Forwarded-Host"])
	require.Equal(t, []string{"192.0.2.1", "127.0.0.1"}, got.Header["X-Forwarded-For"])
	require.Equal(t, []string{"https"}, got.Header["X-Forwarded-Proto"])
	require.NotContains(t, got.Header, "X_forwarded_host")
	require.NotContains(t, got.Header, "X_forwarded_for")
	require.Equal(t, "curl", got.UserAgent())

	f.do("GET", "other.example.com", "/")
	require.Equal(t, "other.example.com", f.service.last(t).Header.Get("X-Forwarded-Host"))
}

func TestForgedHeadersAreTakenAway(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, setting(f.service.address, &v2.Request{Headers: map[string]string{"X-Tenant": "shop"}}))
	f.service.answers(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Rouse-Refused", "timeout") })
	answered := f.get("/", "Rouse-Via", "eventbridge", "rouse-anything", "1", "rouse_via", "gateway", "Connection", "X-Tenant, X-Hop, Upgrade", "X-Hop", "1",
		"Proxy-Connection", "x")
	got := f.service.last(t)
	require.NotContains(t, got.Header, "Rouse-Via")
	require.NotContains(t, got.Header, "Rouse-Anything")
	require.NotContains(t, got.Header, "Rouse_via")
	require.NotContains(t, got.Header, "X-Hop")
	require.Equal(t, "shop", got.Header.Get("X-Tenant"), "what the gateway sets is no caller's to remove")
	require.NotContains(t, answered.Header, "Rouse-Refused", "nor can a backend say that it got nothing")
}

func TestACallerCannotRemoveForwardingHeaders(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, open(f.service.address, "/*", "GET"))
	says := []string{"X-Forwarded-Proto", "https", "X-Forwarded-For", "192.0.2.1", "X-Forwarded-Port", "443", "Forwarded", "proto=https", "X-Real-Ip", "192.0.2.1"}
	f.get("/", append(says, "Connection", "x-forwarded-proto, X-Forwarded-For,X-Forwarded-Port, X-Forwarded-Host", "Connection", "forwarded, x-real-ip, X-Hop",
		"X-Hop", "1")...)
	got := f.service.last(t).Header
	for i := 0; i < len(says); i += 2 {
		require.Contains(t, got.Values(says[i]), says[i+1])
	}
	require.Equal(t, shopHost, got.Get("X-Forwarded-Host"))
	require.NotContains(t, got, "X-Hop")
}

func TestForgedHeadersInTrailersAndInterimAnswersAreTakenAway(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, open(f.service.address, "/*", "POST"))
	trailers := make(chan http.Header, 1)
	f.service.answers(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Rouse-Refused", "Rouse_cold_start", "Link", "Connection", "Keep-Alive"} {
			w.Header().Set(name, "forged")
		}
		w.WriteHeader(http.StatusEarlyHints)
		clear(w.Header())
		_, _ = io.Copy(io.Discard, r.Body)
		trailers <- r.Trailer
		w.Header().Set("Trailer", "Rouse-Refused, X-Sum")
		_ = http.NewResponseController(w).Flush()
		for _, name := range []string{"Rouse-Refused", "X-Sum", http.TrailerPrefix + "Rouse-Late", http.TrailerPrefix + "X-Late"} {
			w.Header().Set(name, "1")
		}
	})
	conn := f.dial()
	_, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: shop.example.com\r\nTrailer: Rouse-Via, X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n"+
		"1\r\nx\r\n0\r\nRouse-Via: gateway\r\nRouse-Late: 1\r\nX-Sum: 42\r\n\r\n")
	require.NoError(t, err)
	reader := bufio.NewReader(conn)
	early, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusEarlyHints, early.StatusCode)
	require.Equal(t, http.Header{"Link": {"forged"}}, early.Header)
	require.NoError(t, early.Body.Close())
	require.Equal(t, http.Header{"X-Sum": {"42"}}, <-trailers)
	last, err := http.ReadResponse(reader, nil)
	require.NoError(t, err)
	_, err = io.ReadAll(last.Body)
	require.NoError(t, err)
	require.NoError(t, last.Body.Close())
	require.Equal(t, http.Header{"X-Sum": {"1"}, "X-Late": {"1"}}, last.Trailer)
}

func TestWebSocketsAreTheOneUpgrade(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, open(f.service.address, "/*", "GET"))
	for _, upgrade := range []string{"h2c", "websocket, h2c", "websocket\r\nUpgrade: h2c", "TLS/1.0"} {
		got := f.raw("GET / HTTP/1.1\r\nHost: shop.example.com\r\nUpgrade: " + upgrade +
			"\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\nConnection: Upgrade, HTTP2-Settings, close\r\n\r\n")
		require.Equal(t, "catalog", got.text, "is answered in the protocol that it has")
		for _, name := range []string{"Upgrade", "Connection", "HTTP2-Settings"} {
			require.Empty(t, f.service.last(t).Header.Values(name), upgrade)
		}
	}
}

// A path that changed when it is looked at again would be one to the rules and another to the backend.
func FuzzAPathHasOneForm(f *testing.F) {
	for _, seed := range []string{"/", "/a/../b", "/%2e%2e/x", "/a%2f%61", "//..//", "/%252e", "/\\{}", "*", "/.%2e/..", "/%"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil {
			return
		}
		path, ok := normalPath(u)
		if !ok {
			return
		}
		forwarded := withPath(u, path)
		require.Equal(t, path, forwarded.EscapedPath())
		again, ok := normalPath(forwarded)
		require.True(t, ok)
		require.Equal(t, path, again)
		for segment := range strings.SplitSeq(path, "/") {
			require.NotContains(t, []string{".", ".."}, segment)
		}
		require.True(t, isPlain(strings.ReplaceAll(path, "%", ""), isPathByte))
	})
}
