package differential

import v2 "github.com/rouse-run/rouse/api/gateway/v2"

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
