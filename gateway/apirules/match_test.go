package apirules

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/apirule"
)

// raw sends a request as it is written here, which http.Request would not.
func (f *fixture) raw(text string) answer {
	f.t.Helper()
	conn, err := new(net.Dialer).DialContext(f.t.Context(), "tcp", f.server.Listener.Addr().String())
	require.NoError(f.t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, text)
	require.NoError(f.t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(f.t, err)
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	require.NoError(f.t, err)
	return answer{response, string(body)}
}

func (f *fixture) rawGet(target string) answer {
	f.t.Helper()
	return f.raw("GET " + target + " HTTP/1.1\r\nHost: " + shopHost + "\r\nConnection: close\r\n\r\n")
}

func TestPathsMatchTheirPatterns(t *testing.T) {
	t.Parallel()
	for pattern, paths := range map[string]struct{ fit, not []string }{
		"/anything/one":         {[]string{"/anything/one", "/anything/one?x=/y"}, []string{"/anything/one/", "/anything", "/anything/two"}},
		"/example/{*}":          {[]string{"/example/a", "/example/a%20b", "/example/a+b", "/example/r*m", "/example/a%2Fb"}, []string{"/example/", "/example/a/", "/example"}},
		"/example/{*}/one":      {[]string{"/example/a/one"}, []string{"/example/one", "/example//one"}},
		"/example/{**}":         {[]string{"/example/", "/example/a", "/example/a/b/", "/example//a"}, []string{"/example", "//example/a"}},
		"/example/{**}/one":     {[]string{"/example/a/one", "/example/a/b/one"}, []string{"/example/one"}},
		"/{*}/example/{*}/{**}": {[]string{"/a/example/b/", "/a/example/b/c"}, []string{"/a/example/b"}},
		"/*":                    {[]string{"/", "/a", "//", "/a/../b", "/?"}, []string{"*"}},
		"/a%2fb%61":             {[]string{"/a%2Fba", "/a%2fb%61"}, []string{"/a/ba"}},
	} {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			f.serve(shopHost, open(f.service.address, pattern, "GET"))
			for _, path := range paths.fit {
				require.Equal(t, "catalog", f.rawGet(path).text, path)
			}
			for _, path := range paths.not {
				got := f.rawGet(path)
				require.Equal(t, http.StatusNotFound, got.StatusCode, path)
				require.Empty(t, got.text)
			}
		})
	}
}

func TestAPathIsForwardedInTheFormInWhichItIsCompared(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, open(f.service.address, "/*", "GET"))
	for target, forwarded := range map[string]string{
		"/a/b?x=%zz&y;z":             "/a/b?x=%zz&y;z",
		"/a/./b/../c":                "/a/c",
		"/a/b/..":                    "/a/",
		"/a/.":                       "/a/",
		"/%2e%2e/%2E./admin":         "/admin",
		"/../../x":                   "/x",
		"/a//b/":                     "/a//b/",
		"//a/..//b":                  "///b",
		"/a%2fb/%61%7E%25%2e%2e":     "/a%2Fb/a~%25..",
		"/a%2F..%2Fb":                "/a%2F..%2Fb",
		"/a;v=1/..;/b":               "/a;v=1/..;/b",
		"/caf\u00e9\\{x}|\"^":        "/caf%C3%A9%5C%7Bx%7D%7C%22%5E",
		"/...":                       "/...",
		"http://shop.example.com":    "/",
		"http://shop.example.com/a?": "/a?",
	} {
		require.Equal(t, "catalog", f.rawGet(target).text, target)
		require.Equal(t, forwarded, f.service.last(t).RequestURI, target)
	}
}

func TestAPathWithNULReachesNoBackend(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, open(f.service.address, "/*", "GET"))
	for _, target := range []string{"/%00", "/a%00b", "/a/%00/../b%00"} {
		require.Equal(t, http.StatusBadRequest, f.rawGet(target).StatusCode, target)
	}
	require.Zero(t, f.service.requests())
}

func TestTheFirstRuleWithPathAndMethodAnswers(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost,
		open(f.function.address, "/anything/{*}/one", "POST"), open(f.service.address, "/anything/{**}", "GET", "POST"))
	for _, tc := range []struct {
		method, path string
		status       int
		text         string
	}{
		{"POST", "/anything/x/one", 200, "price"},
		{"POST", "/anything/x/two", 200, "catalog"},
		{"GET", "/anything/x/two", 200, "catalog"},
		{"GET", "/anything/x/one", 403, "RBAC: access denied"}, // what an earlier rule has closed stays closed
		{"PUT", "/anything/x", 404, ""},
		{"GET", "/anything", 404, ""},
	} {
		got := f.do(tc.method, shopHost, tc.path)
		require.Equal(t, tc.status, got.StatusCode, tc)
		require.Equal(t, tc.text, got.text, tc)
	}
}

func TestTheMostSpecificHostAnswersAlone(t *testing.T) {
	t.Parallel()
	f := start(t)
	named := func(host string, to apirule.Backend, path string) apirule.Exposure {
		return exposureOf(host, open(to, path, "GET"))
	}
	f.exposed.Set([]apirule.Exposure{
		named("*.example.com", f.service.address, "/*"),
		named("a.example.com", f.function.address, "/only"),
		named("*.b.example.com", f.function.address, "/*"),
	})
	for host, want := range map[string]struct {
		path, text string
	}{
		"x.example.com":      {"/", "catalog"},
		"x.y.example.com":    {"/", "catalog"},
		"X.Example.COM":      {"/", "catalog"},
		"x.example.com:8080": {"/", "catalog"},
		"x.b.example.com":    {"/", "price"},
		"a.example.com":      {"/only", "price"},
		"b.example.com":      {"/", "catalog"},
	} {
		require.Equal(t, want.text, f.do("GET", host, want.path).text, host)
	}
	require.Equal(t, http.StatusNotFound, f.do("GET", "a.example.com", "/").StatusCode, "the wildcard does not help out")
	for _, unknown := range []string{"example.com", ".example.com", "other.com", "[::1]", "[::1]:80", "com", "x.example.com."} {
		got := f.do("GET", unknown, "/")
		require.Equal(t, http.StatusNotFound, got.StatusCode, unknown)
		require.Empty(t, got.text)
	}
}

func TestTargetsThatAreNoPathAreNotFound(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.server.Config.DisableGeneralOptionsHandler = true
	f.serve(shopHost, open(f.service.address, "/*", "GET", "OPTIONS", "CONNECT"))
	for _, head := range []string{"OPTIONS *", "CONNECT shop.example.com:443", "CONNECT /x"} {
		got := f.raw(head + " HTTP/1.1\r\nHost: shop.example.com\r\nConnection: close\r\n\r\n")
		require.Equal(t, http.StatusNotFound, got.StatusCode, head)
	}
	require.Zero(t, f.service.requests())
}

func TestTheHostOfAnAbsoluteTargetCounts(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.serve(shopHost, open(f.service.address, "/*", "GET"))
	require.Equal(t, http.StatusNotFound, f.rawGet("http://other.example.com/").StatusCode)
	require.Equal(t, "catalog", f.raw("GET http://shop.example.com/a HTTP/1.1\r\nHost: other.example.com\r\nConnection: close\r\n\r\n").text)
	require.Equal(t, shopHost, f.service.last(t).Host, "backends see the host that was judged")
}

func TestAClosedRuleIsNotReadyAndOthersAnswer(t *testing.T) {
	t.Parallel()
	f := start(t)
	missing := open(apirule.Backend{}, "/missing", "GET")
	missing.Closed = true
	f.serve(shopHost, missing, open(f.service.address, "/*", "GET"))
	require.Equal(t, http.StatusServiceUnavailable, f.get("/missing").StatusCode)
	require.Equal(t, "catalog", f.get("/").text)
}

func TestWhatDoesNotHoldIsNotServedButLoaded(t *testing.T) {
	t.Parallel()
	f := start(t)
	broken := apirule.Exposure{APIRule: types.NamespacedName{Namespace: "shop", Name: "broken"}}
	f.exposed.Set([]apirule.Exposure{broken, exposureOf(shopHost, open(f.service.address, "/*", "GET"))})
	fingerprint, err := broken.Fingerprint()
	require.NoError(t, err)
	require.Equal(t, Loaded{Fingerprint: fingerprint}, f.exposed.Loaded()[broken.APIRule])
	require.Len(t, f.exposed.Loaded(), 2)
	require.Equal(t, "catalog", f.get("/").text)

	f.exposed.Set(nil)
	require.Empty(t, f.exposed.Loaded())
	require.Equal(t, http.StatusNotFound, f.get("/").StatusCode)
}
