package dev

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

var price = types.NamespacedName{Namespace: "shop", Name: "price"}

func TestAPIRulesOfAFolderAreServedAtTheirHosts(t *testing.T) {
	t.Parallel()
	f := runAPIRules(t, map[string]string{
		"fn.yaml": function("price"),
		"short.yaml": apiRule("short", "price", `
  - {path: "/prices/{*}", methods: [GET], noAuth: true}
  - {path: /prices, methods: [POST], noAuth: true}`),
		"earlier.yaml": strings.Replace(apiRule("full", "price.example.com", open), "/v2", "/v2alpha1", 1),
		"foreign.yaml": strings.Replace(apiRule("foreign", "foreign", open), "name: price,", "name: price, namespace: shop,", 1),
	})
	require.Empty(t, f.problems())
	status, body := f.get("price.localhost", "/prices/tea")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "shop/price price.localhost", body)
	status, _ = f.get("price.localhost", "/other")
	require.Equal(t, http.StatusNotFound, status)
	status, body = f.get("price.example.com:8070", "/any")
	require.Equal(t, http.StatusOK, status, body)

	urls := map[string]string{}
	for _, each := range f.Status() {
		urls[each.Name] = strings.ReplaceAll(each.URL, f.at(), "")
		require.Equal(t, 1, each.At.Line)
	}
	require.Equal(t, map[string]string{
		"short": "http://price.localhost", "full": "http://price.example.com", "foreign": "http://foreign.localhost",
	}, urls)
	require.Equal(t, []string{
		"http://foreign.localhost" + f.at() + "/", "http://price.example.com" + f.at() + "/",
		"http://price.localhost" + f.at() + "/prices/{*}", "http://price.localhost" + f.at() + "/prices",
	}, f.URLs(price))
}

// A page of another site that has its name resolve to this machine sends that name.
func TestOnlyHostsOfAPIRulesAreAnswered(t *testing.T) {
	t.Parallel()
	f := runAPIRules(t, map[string]string{"fn.yaml": function("price"), "rule.yaml": apiRule("price", "price", open)})
	for _, host := range []string{
		"evil.example", "localhost" + f.at(), "127.0.0.1" + f.at(), "price", "price.localhost.evil.example", "price.evil.example", "other.localhost",
	} {
		status, body := f.get(host, "/")
		require.Equal(t, http.StatusNotFound, status, host)
		require.Empty(t, body)
	}
}

func TestARuleThatLeadsOutOfTheFolderIsClosedAlone(t *testing.T) {
	t.Parallel()
	f := runAPIRules(t, map[string]string{"fn.yaml": function("price"), "rule.yaml": apiRule("price", "price", `
  - path: /orders
    methods: [GET]
    service: {name: orders, port: 80}
    noAuth: true
  - path: /other
    methods: [GET]
    service: {name: price, port: 8080}
    noAuth: true
  - path: /mine
    methods: [GET]
    extAuth: {authorizers: [oauth2-proxy]}
  - path: /price
    methods: [GET]
    noAuth: true`)})
	for _, path := range []string{"/orders", "/other", "/mine"} {
		status, _ := f.get("price.localhost", path)
		require.Equal(t, http.StatusServiceUnavailable, status, path)
	}
	status, _ := f.get("price.localhost", "/price")
	require.Equal(t, http.StatusOK, status)
	const advice = " (its rule answers 503: local mode has the Functions of the folder, and no authorizers)"
	require.ElementsMatch(t, []string{
		"warning: rule.yaml:9: APIRule shop/price: Target service shop/orders not found" + advice,
		"warning: rule.yaml:15: APIRule shop/price: Service shop/price has no TCP port 8080" + advice,
		"warning: rule.yaml:19: APIRule shop/price: Authorizer not found" + advice,
	}, f.problems())
	require.Equal(t, []string{"http://price.localhost" + f.at() + "/price"}, f.URLs(price))
}

func TestAMistakenAPIRuleIsReportedWithItsLineAndNotServed(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"fn.yaml": function("price"), "a.yaml": apiRule("a", "price", open),
		"b.yaml": apiRule("b", "price.localhost", open),
		"c.yaml": strings.Replace(apiRule("c", "c", open), "gateway: kyma-system/kyma-gateway", "timeout: 5", 1),
	}
	f := runAPIRules(t, files)
	const advice = " (correct it: until then this APIRule is not served)"
	require.Equal(t, []string{
		"b.yaml:6: APIRule shop/b: Host is occupied by another APIRule shop/a" + advice,
		"c.yaml:4: APIRule shop/c: Either gateway or externalGateway must be specified" + advice,
	}, f.problems())
	for _, each := range f.Status() {
		require.Equal(t, each.Name == "a", each.URL != "", each.Name)
	}
	status, _ := f.get("c.localhost", "/")
	require.Equal(t, http.StatusNotFound, status)

	f.write(map[string]string{"b.yaml": apiRule("b", "b", open), "c.yaml": apiRule("c", "c", open)})
	require.Empty(t, f.problems())
	status, _ = f.get("c.localhost", "/")
	require.Equal(t, http.StatusOK, status)
}

func TestWhatCannotBeReadJustNowIsServedAsItWas(t *testing.T) {
	t.Parallel()
	f := runAPIRules(t, map[string]string{"fn.yaml": function("price"), "rule.yaml": apiRule("price", "price", open)})
	for name, broken := range map[string]map[string]string{
		"the APIRule is no YAML":             {"rule.yaml": "{"},
		"the CRD refuses the APIRule":        {"rule.yaml": apiRule("price", "price", `[{path: /*, methods: [GET]}]`)},
		"the APIRule has an unknown field":   {"rule.yaml": apiRule("price", "price", open) + "  nonsense: 1\n"},
		"the CRD refuses the Function":       {"fn.yaml": strings.Replace(function("price"), "nodejs22", "cobol", 1)},
		"the files are as they were at last": {"fn.yaml": function("price"), "rule.yaml": apiRule("price", "price", open)},
	} {
		f.write(broken)
		status, body := f.get("price.localhost", "/")
		require.Equal(t, http.StatusOK, status, "%s: %s", name, body)
	}
	f.write(map[string]string{"rule.yaml": ""})
	status, _ := f.get("price.localhost", "/")
	require.Equal(t, http.StatusNotFound, status)
	require.Empty(t, f.Status())
}

// at is the port as URLs have it.
func (f *apiRulesFixture) at() string {
	_, port, _ := strings.Cut(f.Status()[0].URL, "localhost")
	return port
}
