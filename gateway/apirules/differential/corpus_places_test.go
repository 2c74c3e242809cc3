package differential

import (
	"strings"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

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
