package differential

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/gateway/apirules"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

func bearer(token string) string { return "Authorization: Bearer " + token }

// tokens are valid or not, in every way.
func tokens(c *corpus) {
	const host = "token.example.com"
	a, b := c.issuers["a"], c.issuers["b"]
	c.expose(rulesAt(host, "tokens", withTokens("/guarded", a.accepted(), "GET", "POST"), open("/open")))
	now := time.Now().Unix()
	other := claims{"iss": a.name, "sub": "alice"}
	for _, each := range []struct{ note, token string }{
		{"a good token", a.token(nil)},
		{"without an end", a.token(claims{"exp": nil})},
		{"PS256", a.sign("ps", a.claims(nil))},
		{"ES256", a.sign("es", a.claims(nil))},
		{"EdDSA", a.sign("ed", a.claims(nil))},
		{"expired 20 seconds ago", a.token(claims{"exp": now - 20})},
		{"expired 61 seconds ago", a.token(claims{"exp": now - 61})},
		{"expired in 1970", a.token(claims{"exp": 1})},
		{"valid from 50 seconds on", a.token(claims{"nbf": now + 50})},
		{"valid in an hour", a.token(claims{"nbf": now + 3600})},
		{"issued in an hour", a.token(claims{"iat": now + 3600})},
		{"of another issuer", b.token(nil)},
		{"of an unknown issuer", a.token(claims{"iss": "https://unknown.example"})},
		{"issuer with a slash more", a.token(claims{"iss": a.name + "/"})},
		{"without an issuer", a.token(claims{"iss": nil})},
		{"without a subject", a.token(claims{"sub": nil})},
		{"with an empty subject", a.token(claims{"sub": ""})},
		{"with another's key", b.sign("rs", other)},
		{"with an unknown kid", a.headed(`{"alg":"RS256","kid":"no"}`, text(other))},
		{"without a kid", a.headed(`{"alg":"RS256"}`, text(other))},
		{"of another type", a.headed(`{"alg":"RS256","kid":"rs","typ":"at+jwt"}`, text(other))},
		{"with a kid of another algorithm", a.headed(`{"alg":"RS256","kid":"es"}`, text(other))},
		{"with an algorithm that is not its key's", a.headed(`{"alg":"RS384","kid":"rs"}`, text(other))},
		{"algorithm none", a.headed(`{"alg":"none"}`, text(other))},
		{"algorithm unknown", a.headed(`{"alg":"XX256"}`, text(other))},
		{"algorithm None without signature", encode(`{"alg":"none"}`) + "." + encode(text(other)) + "."},
		{"algorithm no text", a.headed(`{"alg":1}`, text(other))},
		{"no algorithm", a.headed(`{"kid":"rs"}`, text(other))},
		{"kid no text", a.headed(`{"alg":"RS256","kid":1}`, text(other))},
		{"header no JSON", a.headed(`{"alg"`, text(other))},
		{"payload no JSON", a.headed(`{"alg":"RS256","kid":"rs"}`, `{"iss"`)},
		{"payload a list", a.headed(`{"alg":"RS256","kid":"rs"}`, `[]`)},
		{"header a list", a.headed(`[]`, text(other))},
		{"empty payload", a.headed(`{"alg":"RS256","kid":"rs"}`, ``)},
		{"issuer no text", a.token(claims{"iss": 1})},
		{"subject no text", a.token(claims{"sub": 1})},
		{"audience a number", a.token(claims{"aud": 1})},
		{"audiences with a number", a.token(claims{"aud": []any{1}})},
		{"end no number", a.token(claims{"exp": "soon"})},
		{"end negative", a.token(claims{"exp": -1})},
		{"end with a fraction", a.token(claims{"exp": float64(now) + 1000.5})},
		{"start no number", a.token(claims{"nbf": "soon"})},
		{"start negative", a.token(claims{"nbf": -1})},
		{"end huge", a.token(claims{"exp": uint64(math.MaxUint64)})},
		{"bad signature", a.token(nil)[:len(a.token(nil))-6] + "AAAAAA"},
		{"signature cut", cut(a.token(nil), 10)},
		{"signature no base64", a.token(nil) + "!"},
		{"payload no base64", "e30.!.AAAA"},
		{"header no base64", "!.e30.AAAA"},
		{"no JWT", "x"},
		{"two sections", "a.b"},
		{"four sections", a.token(nil) + ".x"},
		{"empty", ""},
		{"three dots", "..."},
		{"two dots", ".."},
		{"two spaces before it", " " + a.token(nil)},
		{"a space after it", a.token(nil) + " "},
		{"a comma after it", a.token(nil) + ","},
		{"padded base64", padded(a.token(nil))},
		{"crit", a.headed(`{"alg":"RS256","kid":"rs","crit":["exp"]}`, text(other))},
		{"b64", a.headed(`{"alg":"RS256","kid":"rs","b64":false}`, text(other))},
		{"duplicate members", a.headed(`{"alg":"RS256","kid":"rs"}`, `{"iss":"`+a.name+`","sub":"bob","sub":"alice"}`)},
		{"HS256 by the public key", confused(a, other)},
		{"HS256 by a published secret", signed(jose.SigningKey{
			Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: a.secret, KeyID: "hs"},
		}, a.claims(nil))},
		{"long", a.token(claims{"long": strings.Repeat("x", 9000)})},
	} {
		c.noted(each.note).get(host, "/guarded", bearer(each.token))
	}
	c.get(host, "/guarded")
	c.send("POST", host, "/guarded", "hello")
	c.noted("a good token").send("POST", host, "/guarded", "hello", bearer(a.token(nil)))
	c.noted("a bad token").send("PUT", host, "/guarded", "", bearer("x"))
	c.noted("a good token").get(host, "/open", bearer(a.token(nil)))
	c.noted("a good token").get(host, "/unknown", bearer(a.token(nil)))
	c.noted("a bad token").get(host, "/open", bearer("x"))
	c.noted("a bad token").get(host, "/open?access_token=x")
	c.noted("a bad token").get(host, "/guarded?a=b", bearer("x"))
}

func text(of claims) string { return string(must(json.Marshal(of))) }

func cut(text string, length int) string { return text[:len(text)-length] }

func padded(token string) string {
	sections := strings.Split(token, ".")
	for i := range sections {
		sections[i] += strings.Repeat("=", (4-len(sections[i])%4)%4)
	}
	return strings.Join(sections, ".")
}

// confused is signed with the public key as if it were a secret.
func confused(i *issuer, payload claims) string {
	public := must(x509.MarshalPKIXPublicKey(i.keys["rs"].private.(*rsa.PrivateKey).Public()))
	return signed(jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{Key: public, KeyID: "rs"}}, payload)
}

// scopes and audiences are in many forms.
func scopes(c *corpus) {
	const host = "scope.example.com"
	a := c.issuers["a"]
	need := func(scopes, audiences []string) *v2.JWTAuthorization {
		return &v2.JWTAuthorization{RequiredScopes: scopes, Audiences: audiences}
	}
	c.expose(rulesAt(host, "scopes",
		withTokens("/one", a.accepted(need([]string{"read"}, nil))),
		withTokens("/both", a.accepted(need([]string{"read", "write"}, nil))),
		withTokens("/audience", a.accepted(need(nil, []string{"shop"}))),
		withTokens("/audiences", a.accepted(need(nil, []string{"shop", "bank"}))),
		withTokens("/all", a.accepted(need([]string{"read"}, []string{"shop"}))),
		withTokens("/either", a.accepted(need([]string{"read"}, nil), need(nil, []string{"bank"}))),
	))
	for note, with := range map[string]claims{
		"none": {}, "scope text": {"scope": "read"}, "scope texts": {"scope": "write read"}, "scope list": {"scope": []string{"read", "write"}},
		"scp text": {"scp": "read"}, "scp list": {"scp": []string{"write", "read"}}, "scopes text": {"scopes": "read"},
		"scopes list": {"scopes": []string{"read", "write"}}, "in two claims": {"scp": []string{"read"}, "scope": "write"},
		"longer": {"scope": "reader"}, "scope in capitals": {"scope": "READ"}, "scope number": {"scope": 1}, "scope null": {"scope": nil},
		"scope list in text": {"scope": []string{"read write"}}, "scope with two spaces": {"scope": "read  write"},
		"one audience": {"aud": "shop"}, "audience list": {"aud": []string{"shop"}}, "two audiences": {"aud": []string{"bank", "shop"}},
		"other audience": {"aud": "bank"}, "audiences in text": {"aud": "shop bank"}, "scope and audience": {"aud": "shop", "scope": "read"},
	} {
		for _, path := range []string{"/one", "/both", "/audience", "/audiences", "/all", "/either"} {
			c.noted(note).get(host, path, bearer(a.token(with)))
		}
	}
	for note, with := range map[string]claims{"scp texts": {"scp": "read write"}, "scopes texts": {"scopes": "read write"}} {
		for _, path := range []string{"/one", "/both", "/either", "/audience"} {
			c.noted(note).get(host, path, bearer(a.token(with)))
		}
	}
}

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

// refused is a Service where nothing listens.
const refused = "refused"

// headers of requests and answers on their way.
func headers(c *corpus) {
	const host = "header.example.com"
	changed := open("/set")
	changed.Request = &v2.Request{
		Headers: map[string]string{"X-One": "ours", "x-two": "two words", "User-Agent": "ours"},
		Cookies: map[string]string{"session": "ours", "theme": "dark"},
	}
	c.expose(rulesAt(host, "headers", changed, open("/plain", "GET", "POST"), withTokens("/guarded", c.issuers["a"].accepted())))
	for _, path := range []string{"/set", "/plain"} {
		for _, header := range []string{
			"X-One: theirs", "x-one: theirs", "Cookie: session=theirs; other=theirs", "X-Forwarded-Host: evil.example",
			"User-Agent: curl", "Accept: */*", "X-Empty: ", "X-Long: " + strings.Repeat("x", 4000), "Authorization: Basic YTpi",
			"Authorization: Bearer x", "Proxy-Authorization: Basic YTpi", "Referer: https://a.example/", "X-Ünicode: x",
			"Keep-Alive: timeout=5", "TE: trailers", "Via: 1.1 other", "Forwarded: for=1.2.3.4", "X-Real-Ip: 1.2.3.4",
			"X-Forwarded-For: 1.2.3.4", "X-Forwarded-Proto: https", "X-Forwarded-Port: 1", "X_Forwarded_Host: evil.example", "X_One: theirs",
			"Rouse-Refused: yes", "X-One:   spaces  ", "Accept-Encoding: gzip", "Expect: nonsense", "Content-Type: text/html",
		} {
			c.get(host, path, header)
		}
		c.get(host, path, "X-One: a", "X-One: b")
		c.get(host, path, "Cookie: a=b", "Cookie: c=d")
	}
	c.get(host, "/plain", "X-Hop: secret", "Connection: close, X-Hop")
	c.get(host, "/plain", "Upgrade: websocket")
	c.get(host, "/plain?access_token=x")
	c.noted("the token is forwarded").get(host, "/guarded", "Authorization: Bearer "+c.issuers["a"].token(claims{"iat": 1, "exp": nil}))
	for _, header := range []string{
		"X-Answer:yes", "Set-Cookie:a=b", "Cache-Control:no-store", "Etag:\"x\"", "Www-Authenticate:Basic", "Content-Language:de",
		"Access-Control-Allow-Private-Network:true", "Via:1.1 x", "Strict-Transport-Security:max-age=1", "Server:theirs", "Location:/x",
		"Rouse-Refused:overload", "X-Envoy-Upstream-Service-Time:7", "Content-Encoding:gzip",
	} {
		c.get(host, "/plain", behaviour+": header="+header)
	}
	for _, status := range []int{201, 204, 301, 302, 304, 400, 401, 403, 404, 418, 429, 500, 501, 502, 503, 504, 599} {
		c.get(host, "/plain", fmt.Sprintf("%s: status=%d", behaviour, status))
	}
}

// backends are slow, stream, break off, switch protocols or are not there.
func backends(c *corpus) {
	const host = "backend.example.com"
	soon := v2.Timeout(1)
	quick := open("/quick", "GET", "POST")
	quick.Timeout = &soon
	broken := open("/refused", "GET", "POST")
	broken.Service = &v2.Service{Name: refused}
	c.expose(rulesAt(host, "backends", quick, broken, open("/slow", "GET", "POST")).withTimeout(30))
	for _, path := range []string{"/quick", "/slow"} {
		c.get(host, path)
		c.get(host, path, behaviour+": delay=100ms")
		c.get(host, path, behaviour+": stream=10ms")
		c.get(host, path, behaviour+": abort")
		c.get(host, path, "Connection: Upgrade", "Upgrade: websocket", behaviour+": upgrade=10ms")
		c.get(host, path, "Connection: Upgrade", "Upgrade: other", behaviour+": upgrade=10ms")
	}
	c.get(host, "/quick", behaviour+": delay=10s")
	c.send("POST", host, "/quick", "hello", behaviour+": delay=10s")
	c.get(host, "/quick", behaviour+": stream=700ms")
	c.get(host, "/quick", "Connection: Upgrade", "Upgrade: websocket", behaviour+": upgrade=1500ms")
	c.get(host, "/refused")
	c.send("POST", host, "/refused", "hello")
	c.send("POST", host, "/slow", strings.Repeat("x", 300_000))
}
