package differential

import (
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
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
