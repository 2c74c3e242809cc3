package apirules

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
)

func TestRequestsOfOneAPIRuleAreBounded(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Deps, o *Options) { o.RequestsPerAPIRule = 1 })
	f.exposed.Set([]apirule.Exposure{
		exposureOf(shopHost, open(f.service.address, "/*", "GET")), exposureOf("other.example.com", open(f.function.address, "/*", "GET")),
	})
	entered, release := make(chan struct{}), make(chan struct{})
	f.service.answers(func(http.ResponseWriter, *http.Request) {
		close(entered)
		<-release
	})
	answers := make(chan answer, 1)
	go func() { answers <- f.get("/") }()
	<-entered
	refused := f.get("/")
	require.Equal(t, http.StatusServiceUnavailable, refused.StatusCode)
	require.Equal(t, "1", refused.Header.Get("Retry-After"))
	require.Equal(t, "price", f.do("GET", "other.example.com", "/").text, "others have their own")

	f.exposed.Set([]apirule.Exposure{exposureOf(shopHost, open(f.service.address, "/*", "GET"))})
	require.Equal(t, http.StatusServiceUnavailable, f.get("/").StatusCode, "a change elsewhere gives nobody more")
	close(release)
	require.Equal(t, http.StatusOK, (<-answers).StatusCode)
	f.service.answers(says("again"))
	require.Equal(t, "again", f.get("/").text)
}

func TestRequestsOfANamespaceLeaveAsManyToOthers(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Deps, o *Options) { o.Requests, o.RequestsPerAPIRule = 4, 4 })
	other := exposureOf("other.example.com", open(f.function.address, "/*", "GET"))
	other.APIRule.Namespace = "other"
	f.exposed.Set([]apirule.Exposure{
		exposureOf("a.example.com", open(f.service.address, "/*", "GET")), exposureOf("b.example.com", open(f.service.address, "/*", "GET")), other,
	})
	entered, release := make(chan struct{}), make(chan struct{})
	f.service.answers(func(http.ResponseWriter, *http.Request) {
		entered <- struct{}{}
		<-release
	})
	answers := make(chan answer, 2)
	for _, host := range []string{"a.example.com", "b.example.com"} {
		go func() { answers <- f.do("GET", host, "/") }()
		<-entered
	}
	refused := f.do("GET", "b.example.com", "/")
	require.Equal(t, http.StatusServiceUnavailable, refused.StatusCode)
	require.Equal(t, "1", refused.Header.Get("Retry-After"))
	require.Equal(t, "price", f.do("GET", "other.example.com", "/").text)
	close(release)
	for range cap(answers) {
		require.Equal(t, http.StatusOK, (<-answers).StatusCode)
	}
}

func TestACallerLeavesHalfOfTheRequestsOfAnAPIRuleToOthers(t *testing.T) {
	t.Parallel()
	f := start(t, func(_ *Deps, o *Options) { o.RequestsPerAPIRule = 4 })
	f.serve(shopHost, open(f.service.address, "/*", "GET"))
	h := f.exposed.current.Load().find(shopHost)
	enter := func(address string) bool {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
		r.RemoteAddr = address
		return (&exchange{all: f.exposed}).enter(h, r)
	}
	require.True(t, enter("192.0.2.1:1"))
	require.True(t, enter("192.0.2.1:2"))
	require.False(t, enter("192.0.2.1:3"))
	require.True(t, enter("192.0.2.2:1"))
	require.True(t, enter("192.0.2.3:1"))
	require.False(t, enter("192.0.2.4:1"))
}

func TestTenThousandHostsAreCompiledOnceEach(t *testing.T) {
	t.Parallel()
	const hosts = 10_000
	f := start(t)
	all := make([]apirule.Exposure, hosts)
	for i := range all {
		all[i] = exposureOf(fmt.Sprintf("h%d.example.com", i), open(f.service.address, "/*", "GET"), open(f.service.address, "/a/{*}", "POST"))
	}
	f.exposed.Set(all)
	before := f.exposed.current.Load()
	require.Equal(t, hosts, before.hosts())
	require.Equal(t, "catalog", f.do("GET", "h9999.example.com", "/").text)

	all[0].Rules = all[0].Rules[:1]
	f.exposed.Set(all[:hosts-1])
	after := f.exposed.current.Load()
	compiled := 0
	for name, h := range after.loaded {
		if h != before.loaded[name] {
			compiled++
		}
	}
	require.Equal(t, 1, compiled)
	require.Equal(t, http.StatusNotFound, f.do("GET", "h9999.example.com", "/").StatusCode)
}

// Requests see the old table or the new one, and never a part of both.
func TestTablesAreSwappedUnderRequests(t *testing.T) {
	t.Parallel()
	f := start(t)
	tables := [][]apirule.Exposure{
		{exposureOf("a.example.com", open(f.service.address, "/*", "GET")), exposureOf("*.example.com", open(f.function.address, "/*", "GET"))},
		{exposureOf("a.example.com", open(f.function.address, "/*", "GET")), exposureOf("*.example.com", open(f.service.address, "/*", "GET"))},
	}
	f.exposed.Set(tables[0])
	for i := range 200 {
		var setting sync.WaitGroup
		setting.Go(func() { f.exposed.Set(tables[i%2]) })
		require.Equal(t, http.StatusOK, f.do("GET", "a.example.com", "/").StatusCode)
		setting.Wait()
	}
}

func TestWhatATenantBreaksIsHisAlone(t *testing.T) {
	t.Parallel()
	f := start(t)
	wrongPath := open(f.service.address, "/{**}/{**}", "GET")
	broken := exposureOf("broken.example.com", wrongPath, open(f.service.address, "/good", "GET"))
	broken.CORS = shopPolicy(v2.StringMatch{"regex": "("})
	f.exposed.Set([]apirule.Exposure{broken, exposureOf(shopHost, open(f.service.address, "/*", "GET"))})
	require.Equal(t, "catalog", f.get("/").text)
	require.Equal(t, "catalog", f.do("GET", "broken.example.com", "/good").text)
	require.Equal(t, http.StatusNotFound, f.do("GET", "broken.example.com", "/bad").StatusCode)
	problems := f.exposed.Loaded()[broken.APIRule].Problems
	require.Len(t, problems, 2)
	require.Equal(t, ".spec.corsPolicy.allowOrigins[0].regex", problems[0].Attribute)
	require.Equal(t, apirule.Problem{
		Attribute: ".spec.rules[0].path", Closes: apirule.RuleAt(0),
		Message: "path /{**}/{**}: Only one {**} operator is allowed in the path.",
	}, problems[1])
	require.Empty(t, f.exposed.Loaded()[types.NamespacedName{Namespace: "shop", Name: shopHost}].Problems)
}

func TestRequestsAreCountedByOutcomeAndClass(t *testing.T) {
	t.Parallel()
	f, i := start(t), newIssuer(t)
	closed := open(f.service.address, "/closed", "GET")
	closed.Closed = true
	f.serve(shopHost, closed, withTokens(f.service.address, "/locked", i.jwt()), within(20*time.Millisecond, f.service.address, "/slow"), open(f.service.address, "/*", "GET"))
	f.service.answers(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/teapot":
			w.WriteHeader(http.StatusTeapot)
		case "/slow":
			hangs(w, r)
		}
	})
	for _, path := range []string{"/", "/", "/teapot", "/closed", "/locked", "/slow"} {
		f.get(path)
	}
	f.get("/locked", "Authorization", "Bearer x")
	for n := range 3 {
		f.do("GET", fmt.Sprintf("unknown%d.example.com", n), "/")
	}
	require.Eventually(t, func() bool { return testutil.CollectAndCount(f.exposed.metrics.requests) == 7 }, time.Minute, time.Millisecond)
	for labels, count := range map[[2]string]float64{
		{"served", "2xx"}: 2, {"served", "4xx"}: 1, {"closed", "5xx"}: 1, {"denied", "4xx"}: 1, {"unauthorized", "4xx"}: 1,
		{"timeout", "5xx"}: 1, {"not_found", "4xx"}: 3,
	} {
		require.InDelta(t, count, testutil.ToFloat64(f.exposed.metrics.requests.WithLabelValues(labels[0], labels[1])), 0, labels)
	}
	families, err := f.registry.Gather()
	require.NoError(t, err)
	require.Len(t, families, 4)
}

func TestNothingOfARequestIsLoggedOrAnswered(t *testing.T) {
	t.Parallel()
	var logged strings.Builder
	f, i := start(t, func(d *Deps, _ *Options) {
		d.Log = funcr.New(func(prefix, args string) { logged.WriteString(prefix + args) }, funcr.Options{})
	}), newIssuer(t)
	f.serve(shopHost, withTokens(f.service.address, "/*", i.jwt()))
	got := f.get("/?access_token=s3cret")
	require.Equal(t, http.StatusUnauthorized, got.StatusCode)
	require.NotContains(t, got.text+fmt.Sprint(got.Header), "s3cret")
	require.Empty(t, logged.String())
}
