package differential

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

// request is what is sent to both gateways, byte by byte.
type request struct {
	name string
	text string
	// rest is sent later, where it is anything.
	rest string
	// last requires that the connection ends after the response.
	last bool
}

// anyToken has no place in names.
var anyToken = regexp.MustCompile(`eyJ[\w-]+\.[\w.-]+`)

// corpus is the exposed APIRules and all requests.
type corpus struct {
	issuers  map[string]*issuer
	apiRules []apiRule
	requests []request

	note string // of the request that follows
}

func (c *corpus) expose(rules ...apiRule) { c.apiRules = append(c.apiRules, rules...) }

// noted has the next request with a note in its name, for what the name does not show.
func (c *corpus) noted(note string) *corpus {
	c.note = note
	return c
}

func (c *corpus) get(host, target string, headers ...string) {
	c.send("GET", host, target, "", headers...)
}

// send is an ordinary request with further headers, each as "Name: value".
func (c *corpus) send(method, host, target, body string, headers ...string) {
	lines := []string{method + " " + target + " HTTP/1.1", "Host: " + host}
	if body != "" || method == "POST" || method == "PUT" || method == "PATCH" {
		lines = append(lines, fmt.Sprintf("Content-Length: %d", len(body)))
	}
	lines = append(lines, headers...)
	if !slices.ContainsFunc(headers, func(h string) bool { return strings.HasPrefix(h, "Connection:") }) {
		lines = append(lines, "Connection: close")
	}
	name := method + " " + host + target
	switch {
	case c.note != "":
		name = c.note + ": " + name
	case len(headers) > 0:
		name += " with " + strings.Join(headers, ", ")
	}
	c.raw(name, strings.Join(lines, "\r\n")+"\r\n\r\n"+body)
}

func (c *corpus) raw(name, text string) {
	c.requests = append(c.requests, request{name: anyToken.ReplaceAllString(name, "TOKEN"), text: text})
	c.note = ""
}

func newCorpus(issuers map[string]*issuer) *corpus {
	c := &corpus{issuers: issuers}
	for _, area := range []func(*corpus){
		paths, encodings, order, hosts, methods, origins, headers, backends, tokens, tokenPlaces, manyIssuers, scopes, authorizers, malformed, bodies,
	} {
		area(c)
	}
	return c
}

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

// origins sends CORS requests with every kind of match.
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

// paths requests each path for each pattern.
func paths(c *corpus) {
	for i, pattern := range []string{
		"/", "/*", "/{**}", "/anything/one", "/example/{*}", "/example/{*}/one", "/example/{**}", "/example/{**}/one",
		"/{*}/example/{*}/{**}", "/{*}", "/example/", "/{*}/{*}",
	} {
		host := fmt.Sprintf("path-%d.example.com", i)
		c.expose(rulesAt(host, "paths", open(pattern)))
		for _, path := range []string{
			"/", "/anything/one", "/anything/one/", "/anything/one?two=three", "/anything/onE", "/anything",
			"/example", "/example/", "/example/a", "/example/a/", "/example/a/b", "/example/a/b/", "/example/a%20b", "/example/a+b",
			"/example/one", "/example/a/one", "/example/a/b/one", "/example/a/one/",
			"/a/example/b/", "/a/example/b/c", "/a/example/b", "/a/example/b/c/d",
		} {
			c.get(host, path)
		}
	}
	c.get("path-7.example.com", "/example//one")
	c.get("path-6.example.com", "/example//one")
	c.get("path-4.example.com", "/example//")
	c.get("path-11.example.com", "//example")
}

// encodings are paths that do not look like what they are.
func encodings(c *corpus) {
	const host = "encoding.example.com"
	c.expose(rulesAt(host, "encodings",
		open("/admin", "POST"), open("/files/{*}"), open("/deep/{**}"), open("/v1.0/orders"), open("/plus+sign"), open("/a%20b"),
	))
	for _, path := range []string{
		"/files/a%2Fb", "/files/a%2fb", "/files/%41", "/files/%7Euser", "/files/~user", "/files/a%00b", "/files/a%20b",
		"/files/a;b=c", "/files/a:b@c", "/files/!$&'()+,;=", "/files/%C3%A9", "/files/..%2fetc", "/files/%2e%2e%2fetc",
		"/files/a/../b", "/files/a/./b", "/files/./b", "/files/../files/b", "/files/%2e/b", "/files/a/%2e%2e/b", "/files/a/.%2E/b",
		"/deep/a/..", "/deep/a/.", "/deep/a/../../files/x", "/deep/../../../files/x", "/deep/a//b", "/deep/a/../..//files/x",
		"/deep/a?b=/../c", "/deep/a?b=%2F", "/deep/?", "/deep/a?", "/deep/a?b=c&b=d;e", "/v1.0/orders", "/a%20b", "/a%20b/",
		"/admin", "/%61dmin", "/x/../files/a", "/files/a%", "/deep/...", "/deep/.../a", "/deep/.a", "/deep/a..", "/deep/%2e%2e",
	} {
		c.get(host, path)
	}
	c.get(host, "/v1X0/orders")
	c.get(host, "/plus+sign")
	c.get(host, "/plussign")
	c.get(host, "/files/r*m")
	c.get(host, "/deep/r*m/*")
	c.get(host, `/files/a\b`)
	c.get(host, `/files\a`)
	c.get(host, "/files/a#b")
	c.get(host, "/files/é")
	c.get(host, "/files/a|b")
	c.get(host, "/files/a\"b")
	c.get(host, "/files/{a}")
	c.get(host, "/deep/a%zz")
	c.get(host, "/files/%c3%a9")
	c.get(host, "/deep/a%2f..%2fb")
	c.get(host, "/deep/a?b=%zz")
	c.get(host, "/deep/"+strings.Repeat("a", 9000))
}

// order has rules whose order matters.
func order(c *corpus) {
	a := c.issuers["a"]
	const quirk, split = "quirk.example.com", "split.example.com"
	c.expose(
		rulesAt(quirk, "quirk", withTokens("/anything/{*}/one", a.accepted(), "POST"), open("/anything/{**}", "GET", "POST")),
		rulesAt(split, "split",
			withTokens("/anything/{*}/one", a.accepted(), "POST"), open("/anything/{**}", "GET"), open("/anything/{**}", "POST"),
		),
		rulesAt("first.example.com", "first", open("/a/b", "GET"), open("/a/{*}", "GET", "POST"), open("/{**}", "GET", "POST", "PUT")),
		rulesAt("whole.example.com", "whole", withTokens("/only", a.accepted(), "POST"), open("/*", "GET", "POST")),
	)
	token := "Authorization: Bearer " + a.token(nil)
	for _, host := range []string{quirk, split} {
		for _, method := range []string{"GET", "POST", "PUT"} {
			for _, path := range []string{"/anything/x/one", "/anything/x/two", "/anything/", "/anything/x/y/one"} {
				c.send(method, host, path, "")
				c.noted("with a token").send(method, host, path, "", token)
			}
		}
	}
	for _, host := range []string{"first.example.com", "whole.example.com"} {
		for _, method := range []string{"GET", "POST", "PUT"} {
			for _, path := range []string{"/a/b", "/a/c", "/only", "/"} {
				c.send(method, host, path, "")
			}
		}
	}
}

// tokenPlaces are headers and parameters.
func tokenPlaces(c *corpus) {
	a, b := c.issuers["a"], c.issuers["b"]
	from := func(i *issuer, change func(*v2.JWTAuthentication)) v2.JWT {
		authentication := i.authentication()
		change(authentication)
		return v2.JWT{Authentications: []*v2.JWTAuthentication{authentication}}
	}
	c.expose(
		rulesAt("place.example.com", "place", withTokens("/*", a.accepted())),
		rulesAt("place-header.example.com", "place-header", withTokens("/*", from(a, func(j *v2.JWTAuthentication) {
			j.FromHeaders = []v2.JWTHeader{{Name: "X-Jwt", Prefix: "JwtToken "}}
		}))),
		rulesAt("place-bare.example.com", "place-bare", withTokens("/*", from(a, func(j *v2.JWTAuthentication) {
			j.FromHeaders = []v2.JWTHeader{{Name: "x-jwt"}}
		}))),
		rulesAt("place-param.example.com", "place-param", withTokens("/*", from(a, func(j *v2.JWTAuthentication) {
			j.FromParams = []string{"jwt"}
		}))),
		rulesAt("place-two.example.com", "place-two", withTokens("/*", v2.JWT{
			Authentications: []*v2.JWTAuthentication{a.authentication(), b.authentication()},
		})),
	)
	good, bad := a.token(nil), "x"
	for _, kind := range []string{"place", "place-header", "place-bare", "place-param", "place-two"} {
		for _, each := range []struct {
			note, target string
			headers      []string
		}{
			{"nowhere", "/", nil},
			{"in Authorization", "/", []string{bearer(good)}},
			{"bad in Authorization", "/", []string{bearer(bad)}},
			{"after bearer", "/", []string{"Authorization: bearer " + good}},
			{"after BEARER", "/", []string{"Authorization: BEARER " + good}},
			{"after Basic", "/", []string{"Authorization: Basic YTpi"}},
			{"bare in Authorization", "/", []string{"Authorization: " + good}},
			{"in small authorization", "/", []string{"authorization: Bearer " + good}},
			{"Bearer alone", "/", []string{"Authorization: Bearer"}},
			{"in access_token", "/?access_token=" + good, nil},
			{"bad in access_token", "/?access_token=" + bad, nil},
			{"in jwt", "/?jwt=" + good, nil},
			{"bad in jwt", "/?jwt=" + bad, nil},
			{"in JWT", "/?JWT=" + good, nil},
			{"in X-Jwt", "/", []string{"X-Jwt: " + good}},
			{"bad in X-Jwt", "/", []string{"X-Jwt: " + bad}},
			{"in X-Jwt after JwtToken", "/", []string{"X-Jwt: JwtToken " + good}},
			{"bad in X-Jwt after JwtToken", "/", []string{"X-Jwt: JwtToken " + bad}},
			{"in X-Jwt after JwtToken without space", "/", []string{"X-Jwt: JwtToken" + good}},
			{"in a cookie", "/", []string{"Cookie: access_token=" + good}},
			{"good in Authorization, bad in access_token", "/?access_token=" + bad, []string{bearer(good)}},
			{"bad in Authorization, good in access_token", "/?access_token=" + good, []string{bearer(bad)}},
			{"good in both", "/?access_token=" + good, []string{bearer(good)}},
			{"twice in Authorization", "/", []string{bearer(good), bearer(good)}},
			{"twice in access_token", "/?access_token=" + good + "&access_token=" + good, nil},
			{"after a bad escape", "/?a=%zz&access_token=" + good, nil},
			{"in access_token with an escape", "/?access%5Ftoken=" + good, nil},
			{"after a semicolon", "/?a;access_token=" + good, nil},
			{"after a second question mark", "/?a?access_token=" + good, nil},
			{"escaped in access_token", "/?access_token=" + strings.Replace(good, ".", "%2E", 1), nil},
			{"in two headers, the second good", "/", []string{"Authorization: Basic YTpi", bearer(good)}},
			{"in Authorization, another scheme before", "/", []string{"Authorization: bearer " + bad, bearer(good)}},
			{"after a tab", "/", []string{"Authorization: Bearer\t" + good}},
			{"in access_token, another scheme in Authorization", "/?access_token=" + good, []string{"Authorization: JWT " + bad}},
			{"in access_token, bearer in Authorization", "/?access_token=" + good, []string{"Authorization: bearer " + bad}},
			{"in access_token, a semicolon in another", "/?access_token=" + bad + ";x&access_token=" + good, nil},
			{"in access_token, a bad escape in another", "/?access_token=" + bad + "%zz&access_token=" + good, nil},
			{"in Authorization, access_token with an escape", "/?access%5Ftoken=" + bad, []string{bearer(good)}},
			{"in Authorization, ACCESS_TOKEN", "/?ACCESS_TOKEN=" + bad, []string{bearer(good)}},
			{"in Authorization, a bad escape in the query", "/?a=100%", []string{bearer(good)}},
			{"in jwt and Authorization", "/?jwt=" + good, []string{bearer(bad)}},
			{"in X-Jwt and Authorization", "/", []string{"X-Jwt: " + good, bearer(bad)}},
			{"in X-Jwt, a password in Authorization", "/", []string{"X-Jwt: " + good, "Authorization: Basic YTpi"}},
			{"in X-Jwt and access_token", "/?access_token=" + bad, []string{"X-Jwt: " + good}},
			{"in X-Jwt and X_Jwt", "/", []string{"X-Jwt: " + good, "X_Jwt: " + bad}},
			{"empty in access_token", "/?access_token=", nil},
			{"of the second issuer", "/", []string{bearer(b.token(nil))}},
			{"of an unknown issuer", "/", []string{bearer(a.token(claims{"iss": "x"}))}},
		} {
			c.noted(each.note).get(kind+".example.com", each.target, each.headers...)
		}
	}
}

// manyIssuers are rules with several issuers or places for one host.
func manyIssuers(c *corpus) {
	const host = "issuers.example.com"
	a, b := c.issuers["a"], c.issuers["b"]
	c.expose(rulesAt(host, "issuers", withTokens("/a", a.accepted()), withTokens("/b", b.accepted()), withTokens("/both", v2.JWT{
		Authentications: []*v2.JWTAuthentication{a.authentication(), b.authentication()},
	})))
	for note, token := range map[string]string{
		"of a": a.token(nil), "of b": b.token(nil), "of c": a.token(claims{"iss": "https://c.example"}),
		"expired of a": a.token(claims{"exp": 1}),
	} {
		for _, path := range []string{"/a", "/b", "/both", "/none"} {
			c.noted(note).get(host, path, bearer(token))
		}
	}
}

// malformed requests are answered before any rule.
func malformed(c *corpus) {
	const host = "plain.example.com"
	const at = "Host: " + host
	send := func(name, first string, lines ...string) {
		head, body := lines, ""
		if last := len(lines) - 1; last >= 0 && strings.HasPrefix(lines[last], "\r\n") {
			head, body = lines[:last], lines[last][2:]
		}
		c.raw(name, strings.Join(append(append([]string{first}, head...), "Connection: close"), "\r\n")+"\r\n\r\n"+body)
	}
	const get, post = "GET / HTTP/1.1", "POST / HTTP/1.1"
	c.raw("HTTP/1.0", "GET / HTTP/1.0\r\n"+at+"\r\n\r\n")
	c.raw("bare line feeds", get+"\n"+at+"\nConnection: close\n\n")
	send("HTTP/2.0", "GET / HTTP/2.0", at)
	send("HTTP/3.7", "GET / HTTP/3.7", at)
	send("no host", get)
	send("two hosts", get, at, "Host: unknown.example.com")
	send("an empty host", get, "Host: ")
	send("a user in the host", get, "Host: a@"+host)
	send("a path in the host", get, at+"/a")
	send("a space in the target", "GET /a b HTTP/1.1", at)
	send("a target without a slash", "GET a HTTP/1.1", at)
	send("a line without a colon", get, at, "nonsense")
	send("a space before the colon", get, at, "X-One : a")
	send("a folded line", get, at, "X-One: a\r\n b")
	send("a control character", get, at, "X-One: a\x01b")
	send("two lengths", post, at, "Content-Length: 1", "Content-Length: 2", "\r\nxx")
	send("two equal lengths", post, at, "Content-Length: 1", "Content-Length: 1", "\r\nx")
	send("a signed length", post, at, "Content-Length: +1", "\r\nx")
	send("a length and chunks", post, at, "Content-Length: 5", "Transfer-Encoding: chunked", "\r\n0\r\n\r\n")
	send("a coding but chunked", post, at, "Transfer-Encoding: gzip, chunked", "\r\n0\r\n\r\n")
}

// bodies come slowly, or not to their end.
func bodies(c *corpus) {
	const host, next = "plain.example.com", "GET /hidden HTTP/1.1\r\nHost: plain.example.com\r\n\r\n"
	const length, chunks = "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"
	send := func(name, header, body, rest string, last bool) {
		if !last {
			header += "Connection: close\r\n"
		}
		c.requests = append(c.requests, request{name, "POST / HTTP/1.1\r\nHost: " + host + "\r\n" + header + "\r\n" + body, rest, last})
	}
	send("a slow body", length, "he", "llo", false)
	send("slow chunks", chunks, "2\r\nhe\r\n3\r", "\nllo\r\n0\r\n\r\n", false)
	send("a body that stops", length, "he", "", true)
	send("a body that does not begin", length, "", "", true)
	send("chunks that stop", chunks, "2\r\nhe\r\n3\r", "", true)
	send("a chunk that is none", chunks, "2\r\nhe\r\nx\r\n", next, true)
	send("a chunk that is too long", chunks, "2\r\nhello\r\n", next, true)
}
