package apirules

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
)

// shopPolicy has something in every field.
func shopPolicy(origins ...v2.StringMatch) *v2.CORSPolicy {
	maxAge := int64(300)
	return &v2.CORSPolicy{
		AllowOrigins: origins, AllowMethods: []string{"GET", "POST"}, AllowHeaders: []string{"X-One", "X-Two"},
		ExposeHeaders: []string{"X-Sum"}, AllowCredentials: &yes, MaxAge: &maxAge,
	}
}

// withCORS serves one Service, that has CORS headers of its own, by OPTIONS and GET.
func (f *fixture) withCORS(policy *v2.CORSPolicy, rules ...apirule.Rule) {
	f.t.Helper()
	f.service.answers(func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{
			"Allow-Origin", "Allow-Credentials", "Expose-Headers", "Allow-Methods", "Allow-Headers", "Max-Age",
		} {
			w.Header().Set("Access-Control-"+name, "backend")
		}
		w.Header().Set("X-Backend", "yes")
		w.WriteHeader(http.StatusAccepted)
	})
	exposed := exposureOf(shopHost, append(rules, open(f.service.address, "/*", "GET", "OPTIONS"))...)
	exposed.CORS = policy
	f.exposed.Set([]apirule.Exposure{exposed})
}

// corsHeaders are the CORS headers of a response.
func corsHeaders(header http.Header) map[string]string {
	found := map[string]string{}
	for name, values := range header {
		if short, ok := strings.CutPrefix(name, "Access-Control-"); ok {
			found[short] = strings.Join(values, "|")
		}
	}
	return found
}

func TestAPreflightIsAnsweredForTheBackend(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.withCORS(shopPolicy(v2.StringMatch{"exact": "https://shop.example"}))
	got := f.do("OPTIONS", shopHost, "/a", "Origin", "https://shop.example", "Access-Control-Request-Method", "DELETE")
	require.Equal(t, http.StatusOK, got.StatusCode)
	require.Empty(t, got.text)
	require.Equal(t, map[string]string{
		"Allow-Origin": "https://shop.example", "Allow-Credentials": "true", "Expose-Headers": "X-Sum",
		"Allow-Methods": "GET,POST", "Allow-Headers": "X-One,X-Two", "Max-Age": "300",
	}, corsHeaders(got.Header))
	require.Zero(t, f.service.requests())
}

func TestAPreflightOfAnOriginThatIsNotAllowedGoesToTheBackend(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.withCORS(shopPolicy(v2.StringMatch{"exact": "https://shop.example"}))
	for _, headers := range [][]string{
		{"Origin", "https://other.example", "Access-Control-Request-Method", "GET"},
		{"Origin", "https://shop.example"},
		{"Access-Control-Request-Method", "GET"},
		{"Origin", "", "Access-Control-Request-Method", "GET"},
		{"Origin", "https://shop.example", "Origin", "https://shop.example", "Access-Control-Request-Method", "GET"},
	} {
		before := f.service.requests()
		got := f.do("OPTIONS", shopHost, "/a", headers...)
		require.Equal(t, http.StatusAccepted, got.StatusCode, headers)
		require.NotContains(t, corsHeaders(got.Header), "Allow-Methods", headers)
		require.NotEqual(t, "https://other.example", got.Header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, before+1, f.service.requests())
	}
}

func TestAPreflightNeedsARuleWithOPTIONS(t *testing.T) {
	t.Parallel()
	f := start(t)
	exposed := exposureOf(shopHost, open(f.service.address, "/*", "GET"))
	exposed.CORS = shopPolicy(v2.StringMatch{"exact": "*"})
	f.exposed.Set([]apirule.Exposure{exposed})
	got := f.do("OPTIONS", shopHost, "/a", "Origin", "https://shop.example", "Access-Control-Request-Method", "GET")
	require.Equal(t, http.StatusNotFound, got.StatusCode)
	require.Empty(t, corsHeaders(got.Header))
}

func TestAnAllowedOriginMayReadEveryAnswerOfARule(t *testing.T) {
	t.Parallel()
	f := start(t)
	locked := apirule.Rule{
		Spec: &v2.Rule{Path: "/locked", Methods: []v2.Method{"GET", "OPTIONS"}, JWT: &v2.JWT{
			Authentications: []*v2.JWTAuthentication{{Issuer: "https://issuer.example", JWKSURI: "http://127.0.0.1:1/keys"}},
		}}, Backend: f.service.address, Timeout: 1e9,
	}
	f.withCORS(shopPolicy(v2.StringMatch{"exact": "https://shop.example"}), locked)
	readable := map[string]string{"Allow-Origin": "https://shop.example", "Allow-Credentials": "true", "Expose-Headers": "X-Sum"}

	got := f.get("/a", "Origin", "https://shop.example")
	require.Equal(t, http.StatusAccepted, got.StatusCode)
	require.Equal(t, readable, corsHeaders(got.Header))
	got = f.get("/locked", "Origin", "https://shop.example")
	require.Equal(t, http.StatusForbidden, got.StatusCode)
	require.Equal(t, readable, corsHeaders(got.Header))
	got = f.do("OPTIONS", shopHost, "/locked", "Origin", "https://shop.example", "Access-Control-Request-Method", "GET")
	require.Equal(t, http.StatusOK, got.StatusCode, "before any token is asked for")
}

func TestCORSHeadersOfBackendsNeverPass(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]*v2.CORSPolicy{
		"without a policy": nil, "without origins": shopPolicy(), "of another origin": shopPolicy(v2.StringMatch{"exact": "https://x.example"}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t)
			f.withCORS(policy)
			got := f.get("/a", "Origin", "https://shop.example")
			require.Equal(t, "yes", got.Header.Get("X-Backend"))
			require.Empty(t, corsHeaders(got.Header))
		})
	}
}

func TestOriginsMatchExactlyByPrefixOrByAWholePattern(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		match        v2.StringMatch
		allowed, not []string
	}{
		"exact":            {v2.StringMatch{"exact": "https://a.example"}, []string{"https://a.example"}, []string{"https://a.example:8443", "HTTPS://a.example", "https://a"}},
		"the asterisk":     {v2.StringMatch{"exact": "*"}, []string{"https://a.example", "null"}, nil},
		"prefix":           {v2.StringMatch{"prefix": "https://a"}, []string{"https://a.example", "https://a"}, []string{"http://a.example"}},
		"another key":      {v2.StringMatch{"suffix": "https://a"}, []string{"https://a.example"}, []string{"b.https://a"}},
		"pattern":          {v2.StringMatch{"regex": `https://[a-z]+\.example`}, []string{"https://a.example"}, []string{"https://a.example.evil", "xhttps://a.example", "https://a-example"}},
		"alternatives":     {v2.StringMatch{"regex": "a|b"}, []string{"a", "b"}, []string{"ax", "xb"}},
		"pattern of lines": {v2.StringMatch{"regex": "(?m)^a$"}, []string{"a"}, []string{"b"}},
		"every pattern":    {v2.StringMatch{"regex": ".*"}, []string{"https://a.example"}, []string{strings.Repeat("a", maxOrigin+1)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, problems := compileCORS(shopPolicy(tc.match))
			require.Empty(t, problems)
			asks := func(origin string) *origin {
				return c.allows(&http.Request{Header: http.Header{"Origin": {origin}}})
			}
			for _, each := range tc.allowed {
				require.NotNil(t, asks(each), each)
			}
			for _, each := range tc.not {
				require.Nil(t, asks(each), each)
			}
		})
	}
}

func TestPatternsOfOriginsAreBounded(t *testing.T) {
	t.Parallel()
	many := make([]v2.StringMatch, 0, 100)
	for range 100 {
		many = append(many, v2.StringMatch{"regex": "[a-z]{100}"})
	}
	for name, origins := range map[string][]v2.StringMatch{
		"no pattern":             {{"regex": "("}},
		"a group that is closed": {{"regex": "a)|(b"}},
		"look-ahead":             {{"regex": "(?=a)"}},
		"a long one":             {{"regex": strings.Repeat("a", maxPattern+1)}},
		"repetitions":            {{"regex": "((a{100}){10}){10}"}},
		"classes":                {{"regex": strings.Repeat(`\pL`, 100)}},
		"many":                   many,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, problems := compileCORS(shopPolicy(append(origins, v2.StringMatch{"exact": "https://good.example"})...))
			require.NotEmpty(t, problems)
			require.Regexp(t, `^\.spec\.corsPolicy\.allowOrigins\[\d+\]\.regex$`, problems[0].Attribute)
			require.NotNil(t, c.allows(&http.Request{Header: http.Header{"Origin": {"https://good.example"}}}), "others hold")
			require.Less(t, len(c.patterns), 100)
		})
	}
}

func TestAnswersOfAHostWithAPolicyVaryByOrigin(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.withCORS(shopPolicy(v2.StringMatch{"exact": "https://shop.example"}), open(f.function.address, "/vary", "GET"))
	require.Equal(t, []string{"Origin"}, f.get("/a").Header["Vary"], "a cache stores it for clients without an origin")
	require.Equal(t, []string{"Origin"}, f.get("/a", "Origin", "https://shop.example").Header["Vary"])
	require.Equal(t, []string{"Origin"}, f.do("OPTIONS", shopHost, "/a", "Origin", "https://shop.example",
		"Access-Control-Request-Method", "GET").Header["Vary"])
	for vary, want := range map[string][]string{
		"Accept": {"Accept", "Origin"}, "accept, origin": {"accept, origin"}, "*": {"*"},
	} {
		f.function.answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Vary", vary)
			w.WriteHeader(http.StatusOK)
		})
		require.Equal(t, want, f.get("/vary").Header["Vary"])
	}
	f.serve(shopHost, open(f.service.address, "/*", "GET"))
	require.Empty(t, f.get("/a").Header["Vary"])
}
