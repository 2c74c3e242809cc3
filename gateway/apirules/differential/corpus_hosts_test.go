package differential

import v2 "github.com/rouse-run/rouse/api/gateway/v2"

// hosts are spelled in many ways, and several APIRules may seem to have one.
func hosts(c *corpus) {
	a := c.issuers["a"]
	c.expose(
		rulesAt("plain.example.com", "plain", open("/*", "GET", "POST")),
		rulesAt("*.wild.example.com", "wild", open("/*")),
		rulesAt("*.deep.wild.example.com", "deep", open("/*")),
		rulesAt("exact.wild.example.com", "exact", open("/exact")),
		rulesAt("*.shared.example.com", "shared", open("/*")),
		rulesAt("guarded.shared.example.com", "shared", withTokens("/*", a.accepted())),
	)
	for _, host := range []string{
		"plain.example.com", "PLAIN.Example.COM", "plain.example.com:80", "plain.example.com:8443", "plain.example.com.",
		"unknown.example.com", "example.com", "a.plain.example.com", "localhost", "127.0.0.1", "[::1]", "[::1]:80",
		"a.wild.example.com", "A.WILD.example.com", "a.wild.example.com:80", "a.b.wild.example.com", "wild.example.com",
		".wild.example.com", "a.deep.wild.example.com", "deep.wild.example.com", "exact.wild.example.com", "x-wild.example.com",
		"a.shared.example.com", "*.wild.example.com", "xwild.example.com",
	} {
		c.get(host, "/")
	}
	c.get("exact.wild.example.com", "/exact")
	c.get("a.wild.example.com:8443", "/")
	c.get("guarded.shared.example.com", "/")
	c.noted("with a token").get("guarded.shared.example.com", "/", "Authorization: Bearer "+a.token(nil))
}

// methods of all kinds, also at paths that have others.
func methods(c *corpus) {
	const host = "method.example.com"
	c.expose(
		rulesAt(host, "methods", open("/get"), open("/put", "PUT"), open("/post", "POST"),
			open("/many", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"), open("/trace", "TRACE"), open("/connect", "CONNECT"),
		),
	)
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"} {
		for _, path := range []string{"/get", "/post", "/put", "/many"} {
			c.send(method, host, path, "")
		}
		if method != "HEAD" {
			c.noted("with a body").send(method, host, "/many", "hello")
		}
	}
	for _, method := range []string{"TRACE", "PROPFIND", "get", "Get", "BREW"} {
		c.send(method, host, "/many", "")
	}
	c.send("TRACE", host, "/trace", "")
	c.raw("CONNECT", "CONNECT "+host+":80 HTTP/1.1\r\nHost: "+host+":80\r\nConnection: close\r\n\r\n")
	c.send("OPTIONS", host, "*", "")
	c.raw("a body in chunks", "POST /post HTTP/1.1\r\nHost: "+host+
		"\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n")
	c.raw("a body after 100-continue", "POST /post HTTP/1.1\r\nHost: "+host+
		"\r\nContent-Length: 5\r\nExpect: 100-continue\r\nConnection: close\r\n\r\nhello")
	c.raw("a whole URL as target", "GET http://"+host+"/get?a=b HTTP/1.1\r\nHost: other.example.com\r\nConnection: close\r\n\r\n")
}

// origins ask for CORS, with every kind of match.
func origins(c *corpus) {
	yes, age := true, int64(600)
	all := []v2.Method{"GET", "POST", "OPTIONS"}
	policy := v2.CORSPolicy{
		AllowOrigins: []v2.StringMatch{
			{v2.MatchExact: "https://exact.example"},
			{v2.MatchPrefix: "https://prefix."},
			{v2.MatchRegex: `https://[a-z]+\.regex\.example`},
			{"other": "https://other."},
		},
		AllowMethods: []string{"GET", "POST"}, AllowHeaders: []string{"X-One", "X-Two"}, ExposeHeaders: []string{"X-Three", "X-Four"},
		AllowCredentials: &yes, MaxAge: &age,
	}
	c.expose(
		rulesAt("cors.example.com", "cors",
			open("/open", all...), withTokens("/guarded", c.issuers["a"].accepted(), all...), open("/no-options"),
		).withCORS(policy),
		rulesAt("cors-star.example.com", "cors", open("/*", all...)).withCORS(v2.CORSPolicy{
			AllowOrigins: []v2.StringMatch{{v2.MatchExact: "*"}},
		}),
		rulesAt("cors-regex.example.com", "cors", open("/*", all...)).withCORS(v2.CORSPolicy{
			AllowOrigins: []v2.StringMatch{{v2.MatchRegex: ".*"}}, AllowMethods: []string{"PUT"},
		}),
		rulesAt("cors-empty.example.com", "cors", open("/*", all...)).withCORS(v2.CORSPolicy{AllowMethods: []string{"GET"}}),
		rulesAt("cors-none.example.com", "cors", open("/*", all...)),
	)
	for _, origin := range []string{
		"https://exact.example", "https://exact.example.evil", "http://exact.example", "https://EXACT.example", "https://prefix.anything",
		"https://a.regex.example", "https://a.regex.example.evil", "https://evil.example/https://a.regex.example", "https://other.example",
		"null", "", "https://exact.example:443",
	} {
		c.get("cors.example.com", "/open", "Origin: "+origin)
		c.send("OPTIONS", "cors.example.com", "/open", "", "Origin: "+origin, "Access-Control-Request-Method: DELETE")
	}
	const good = "Origin: https://exact.example"
	for _, kind := range []string{"cors", "cors-star", "cors-regex", "cors-empty", "cors-none"} {
		host := kind + ".example.com"
		c.get(host, "/open", good, behaviour+": cors")
		c.get(host, "/open", behaviour+": cors")
		c.get(host, "/open", "Origin: https://evil.example", behaviour+": cors")
		c.send("OPTIONS", host, "/open", "", good, "Access-Control-Request-Method: PUT", "Access-Control-Request-Headers: X-Other")
		c.send("OPTIONS", host, "/open", "", "Origin: https://evil.example", "Access-Control-Request-Method: PUT", behaviour+": cors")
		c.send("OPTIONS", host, "/open", "", good)
		c.send("OPTIONS", host, "/open", "", "Access-Control-Request-Method: PUT")
		c.send("POST", host, "/open", "x", good)
	}
	preflight := "Access-Control-Request-Method: POST"
	for _, path := range []string{"/guarded", "/no-options", "/unknown", "/open?x=y"} {
		c.send("OPTIONS", "cors.example.com", path, "", good, preflight)
		c.get("cors.example.com", path, good)
	}
	c.send("OPTIONS", "cors.example.com", "/guarded", "", "Origin: https://evil.example", preflight)
	c.noted("with a token").get("cors.example.com", "/guarded", good, "Authorization: Bearer "+c.issuers["a"].token(nil))
	c.noted("with a bad token").get("cors.example.com", "/guarded", good, "Authorization: Bearer x")
	c.send("OPTIONS", "cors.example.com", "/open", "", good, "Access-Control-Request-Method: ")
	c.get("cors.example.com", "/open", good, behaviour+": status=500")
	c.get("cors.example.com", "/open", good, "Origin: https://exact.example")
}
