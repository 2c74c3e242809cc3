package apirule

import (
	"testing"

	"github.com/stretchr/testify/require"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

func TestJWTIsRefused(t *testing.T) {
	t.Parallel()
	const mixture = "mixture of multiple fromHeaders and fromParams is not supported"
	authorize := func(authorizations ...*v2.JWTAuthorization) func(*v2.JWT) {
		return func(jwt *v2.JWT) { jwt.Authorizations = authorizations }
	}
	authenticate := func(change func(*v2.JWTAuthentication)) func(*v2.JWT) {
		return func(jwt *v2.JWT) { change(jwt.Authentications[0]) }
	}
	tests := map[string]struct {
		change             func(*v2.JWT)
		attribute, message string
	}{
		"no issuer":          {func(jwt *v2.JWT) { jwt.Authentications = nil }, ".authentications", "A JWT config must have at least one authentication"},
		"an issuer of null":  {func(jwt *v2.JWT) { jwt.Authentications[0] = nil }, ".authentications[0]", "authentication is empty"},
		"an empty issuer":    {authenticate(func(a *v2.JWTAuthentication) { a.Issuer = "" }), ".authentications[0].issuer", "value is empty or not a valid uri err=value is empty"},
		"an issuer like URI": {authenticate(func(a *v2.JWTAuthentication) { a.Issuer = "://" }), ".authentications[0].issuer", "value is empty or not a valid uri err=missing protocol scheme"},
		"no keys":            {authenticate(func(a *v2.JWTAuthentication) { a.JWKSURI = "" }), ".authentications[0].jwksUri", "value is empty or not a valid uri err=value is empty"},
		"keys at a name":     {authenticate(func(a *v2.JWTAuthentication) { a.JWKSURI = "keys" }), ".authentications[0].jwksUri", "value is empty or not a valid uri err=invalid URI for request"},
		"two headers": {
			authenticate(func(a *v2.JWTAuthentication) { a.FromHeaders = make([]v2.JWTHeader, 2) }),
			".authentications[0].fromHeaders", "multiple fromHeaders are not supported",
		},
		"two parameters": {
			authenticate(func(a *v2.JWTAuthentication) { a.FromParams = make([]string, 2) }),
			".authentications[0].fromParams", "multiple fromParams are not supported",
		},
		"a header and a parameter": {
			authenticate(func(a *v2.JWTAuthentication) {
				a.FromHeaders, a.FromParams = make([]v2.JWTHeader, 1), make([]string, 1)
			}),
			".authentications[0].fromParams", mixture,
		},
		"a parameter after a header": {
			func(jwt *v2.JWT) {
				jwt.Authentications[0].FromHeaders = make([]v2.JWTHeader, 1)
				jwt.Authentications = append(jwt.Authentications, &v2.JWTAuthentication{Issuer: "b", JWKSURI: "/b", FromParams: []string{"p"}})
			},
			".authentications[1].fromParams", mixture,
		},
		"a header after a parameter": {
			func(jwt *v2.JWT) {
				jwt.Authentications[0].FromParams = make([]string, 1)
				jwt.Authentications = append(jwt.Authentications, &v2.JWTAuthentication{Issuer: "b", JWKSURI: "/b", FromHeaders: []v2.JWTHeader{{Name: "h"}}})
			},
			".authentications[1].fromHeaders", mixture,
		},
		"no authorization": {
			authorize([]*v2.JWTAuthorization{}...), ".authorizations", "authorizations defined, but no configuration exists",
		},
		"an authorization of null": {authorize(&v2.JWTAuthorization{}, nil), ".authorizations[1]", "authorization is empty"},
		"no scopes":                {authorize(&v2.JWTAuthorization{RequiredScopes: []string{}}), ".authorizations[0].requiredScopes", "value is empty"},
		"an empty scope":           {authorize(&v2.JWTAuthorization{RequiredScopes: []string{"a", ""}}), ".authorizations[0].requiredScopes", "scope value is empty"},
		"no audiences":             {authorize(&v2.JWTAuthorization{Audiences: []string{}}), ".authorizations[0].audiences", "value is empty"},
		"an empty audience":        {authorize(&v2.JWTAuthorization{Audiences: []string{""}}), ".authorizations[0].audiences", "audience value is empty"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			jwt := withToken()
			tc.change(jwt)

			apiRule, cluster := valid()
			apiRule.Spec.Rules[0].NoAuth, apiRule.Spec.Rules[0].JWT = nil, jwt
			require.Equal(t, "Attribute '"+".spec.rules[0].jwt"+tc.attribute+"': "+tc.message, Validate(apiRule, cluster).String())

			apiRule.Spec.Rules[0].JWT, apiRule.Spec.Rules[0].ExtAuth = nil, &v2.ExtAuth{Authorizers: []string{"sessions"}, Restrictions: jwt}
			require.Equal(t, "Attribute '"+".spec.rules[0].extAuth"+tc.attribute+"': "+tc.message, Validate(apiRule, cluster).String())
		})
	}
}

func TestIssuerHasItsTokensInOnePlaceInAllRules(t *testing.T) {
	t.Parallel()
	apiRule, cluster := valid()
	rule := func(path string, authentications ...*v2.JWTAuthentication) v2.Rule {
		return v2.Rule{Path: path, Methods: []v2.Method{"GET"}, JWT: &v2.JWT{Authentications: authentications}}
	}
	issuer := func(keys string, headers ...v2.JWTHeader) *v2.JWTAuthentication {
		return &v2.JWTAuthentication{Issuer: "a", JWKSURI: keys, FromHeaders: headers}
	}
	apiRule.Spec.Rules = []v2.Rule{
		rule("/a", issuer("/keys", v2.JWTHeader{Name: "A", Prefix: "B "})),
		rule("/b", issuer("/others"), issuer("/keys", v2.JWTHeader{Name: "A", Prefix: "B "})),
		rule("/c", issuer("/others"), issuer("/keys", v2.JWTHeader{Name: "A"})),
		rule("/d", issuer("/keys")),
	}
	const differs = "multiple jwt configurations that differ for the same issuer"
	require.Equal(t, Problems{
		{Attribute: ".spec.rules[2].jwt.authentications[1]", Message: differs},
		{Attribute: ".spec.rules[3].jwt.authentications[0]", Message: differs},
	}, Validate(apiRule, cluster))
}

func TestReasonOfABadURIDoesNotRepeatIt(t *testing.T) {
	t.Parallel()
	apiRule, cluster := valid()
	jwt := withToken()
	jwt.Authentications[0].JWKSURI = "https://me:secret@exa mple.com/keys"
	apiRule.Spec.Rules[0].NoAuth, apiRule.Spec.Rules[0].JWT = nil, jwt
	problems := Validate(apiRule, cluster)
	require.Len(t, problems, 1)
	require.NotContains(t, problems.String(), "secret")
}
