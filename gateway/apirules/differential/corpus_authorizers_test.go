package differential

import (
	"testing"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/gateway/apirules"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// startAuthorizers are first and second, and one that is not there.
func startAuthorizers(t *testing.T) []apirules.Authorizer {
	t.Helper()
	of := func(name string, port int) apirules.Authorizer {
		return apirules.Authorizer{
			Name: name, Service: "127.0.0.1", Port: int32(port), Path: "/check", TimeoutSeconds: 1,
			IncludeRequestHeadersInCheck:    []string{"x-wish", "x-included", "authorization", "cookie"},
			IncludeAdditionalHeadersInCheck: map[string]string{"X-Added": "yes"},
			HeadersToUpstreamOnAllow:        []string{"x-user", "x-saw"},
			HeadersToDownstreamOnAllow:      []string{"x-authorizer", "set-cookie"},
			HeadersToDownstreamOnDeny:       []string{"x-authorizer", "location", "content-type"},
		}
	}
	return []apirules.Authorizer{
		of("first", startAuthorizer(t, "first")), of("second", startAuthorizer(t, "second")), of("gone", loopback.Reserve(t)),
	}
}

// authorizers allow and deny.
func authorizers(c *corpus) {
	const host = "ask.example.com"
	a := c.issuers["a"]
	restricted := a.accepted()
	c.expose(rulesAt(host, "asking",
		asking("/first", v2.ExtAuth{Authorizers: []string{"first"}}, "GET", "POST", "OPTIONS"),
		asking("/both", v2.ExtAuth{Authorizers: []string{"first", "second"}}),
		asking("/restricted", v2.ExtAuth{Authorizers: []string{"first"}, Restrictions: &restricted}),
		asking("/gone", v2.ExtAuth{Authorizers: []string{"gone"}}), open("/open"),
	))
	for _, path := range []string{"/first", "/both", "/restricted", "/gone", "/open"} {
		c.get(host, path)
		for _, wish := range []string{"status=401", "status=403", "status=302", "status=500", "status=204", "abort"} {
			c.get(host, path, "X-Wish: "+wish)
		}
		c.noted("with a token").get(host, path, bearer(a.token(nil)))
		c.noted("with a bad token").get(host, path, bearer("x"))
	}
	c.get(host, "/first?a=b", "X-User: mallory", "X-Saw: mallory", "X-Included: yes", "X-Excluded: no", "Cookie: a=b")
	c.send("POST", host, "/first", "hello")
	c.send("POST", host, "/first", "hello", "X-Wish: status=403")
	c.send("OPTIONS", host, "/first", "", "Origin: https://a.example", "Access-Control-Request-Method: GET")
	c.get(host, "/first", "X-Wish: delay=10s")
	c.get(host, "/first/../first")
	c.get(host, "/first", behaviour+": header=Set-Cookie:backend=yes")
	c.get(host, "/both", behaviour+": header=Set-Cookie:backend=yes")
	c.get(host, "/first", behaviour+": header=X-Authorizer:backend")
}
