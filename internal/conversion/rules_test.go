package conversion

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
)

func TestPathsAreConverted(t *testing.T) {
	t.Parallel()
	for old, want := range map[string][]string{
		"/":                {"/"},
		"/a":               {"/a"},
		"/a/b.txt":         {"/a/b.txt"},
		`/a\.txt`:          {"/a.txt"},
		"/.*":              {"/*"},
		"/(.*)":            {"/*"},
		"/*":               {"/*"},
		"/foo(.*)":         {"/foo", "/foo/{**}"},
		"/foo.*":           {"/foo", "/foo/{**}"},
		"/foo/.*":          {"/foo/{**}"},
		"/foo/(.*)":        {"/foo/{**}"},
		"/foo/{*}/{**}":    {"/foo/{*}/{**}"},
		"/foo/[0-9]+":      nil,
		"/foo(bar)":        nil,
		"/foo/.*/bar":      nil,
		"/foo$":            nil,
		"/(a|b)/.*":        nil,
		"/foo/?":           nil,
		"foo":              nil,
		"":                 nil,
		"/a/*":             nil,
		"/{**}/a/{*}":      nil,
		"/foo/.*/(.*)":     nil,
		"/v1.0/foo(.*)":    {"/v1.0/foo", "/v1.0/foo/{**}"},
		"/%C3%A4":          {"/%C3%A4"},
		"/a(.*)(.*)":       nil,
		"/foo/bar/baz/.*":  {"/foo/bar/baz/{**}"},
		"/foo/bar-baz(.*)": {"/foo/bar-baz", "/foo/bar-baz/{**}"},
	} {
		require.Equal(t, want, pathsOf(old), old)
	}
}

func TestRuleIsConverted(t *testing.T) {
	t.Parallel()
	token := func(authorizations ...*v2.JWTAuthorization) *v2.JWT {
		return &v2.JWT{Authentications: []*v2.JWTAuthentication{{Issuer: "a", JWKSURI: "/b"}}, Authorizations: authorizations}
	}
	tests := map[string]struct {
		fields string
		want   func(*v2.Rule)
	}{
		"no_auth":             {`accessStrategies: [{handler: no_auth}]`, func(*v2.Rule) {}},
		"allow":               {`accessStrategies: [{handler: allow}]`, func(*v2.Rule) {}},
		"noop":                {`accessStrategies: [{handler: noop}]`, func(*v2.Rule) {}},
		"noop and allow":      {`accessStrategies: [{handler: noop}, {handler: allow}]`, func(*v2.Rule) {}},
		"a Service":           {`service: {name: other, namespace: a, port: 81}`, func(r *v2.Rule) { r.Service = &v2.Service{Name: "other", Namespace: "a", Port: 81} }},
		"a time":              {`timeout: 10`, func(r *v2.Rule) { r.Timeout = new(v2.Timeout(10)) }},
		"methods":             {`methods: [GET, options]`, func(r *v2.Rule) { r.Methods = []v2.Method{"GET", "OPTIONS"} }},
		"a mutator of noop":   {`mutators: [{handler: noop}]`, func(*v2.Rule) {}},
		"a mutator of header": {`mutators: [{handler: header, config: {A: b}}]`, func(r *v2.Rule) { r.Request = &v2.Request{Headers: map[string]string{"A": "b"}} }},
		"mutators of headers": {`mutators: [{handler: header, config: {A: b}}, {handler: header, config: {headers: {C: d}}}]`, func(r *v2.Rule) {
			r.Request = &v2.Request{Headers: map[string]string{"A": "b", "C": "d"}}
		}},
		"a mutator of cookie": {`mutators: [{handler: cookie, config: {cookies: {a: b}}}]`, func(r *v2.Rule) { r.Request = &v2.Request{Cookies: map[string]string{"a": "b"}} }},
		"a header with the name of a key": {`mutators: [{handler: header, config: {headers: b}}]`, func(r *v2.Rule) {
			r.Request = &v2.Request{Headers: map[string]string{"headers": "b"}}
		}},
		"jwt of Istio": {
			`accessStrategies: [{handler: jwt, config: {authentications: [{issuer: a, jwksUri: /b, fromHeaders: [{name: c, prefix: "d "}]}], authorizations: [{requiredScopes: [e], audiences: [f]}]}}]`,
			func(r *v2.Rule) {
				r.NoAuth, r.JWT = nil, token(&v2.JWTAuthorization{RequiredScopes: []string{"e"}, Audiences: []string{"f"}})
				r.JWT.Authentications[0].FromHeaders = []v2.JWTHeader{{Name: "c", Prefix: "d "}}
			},
		},
		"jwt of Ory": {
			`accessStrategies: [{handler: jwt, config: {trusted_issuers: [a], jwks_urls: [/b], required_scope: [c, d], target_audience: [e]}}]`,
			func(r *v2.Rule) {
				r.NoAuth, r.JWT = nil, token(&v2.JWTAuthorization{RequiredScopes: []string{"c", "d"}, Audiences: []string{"e"}})
			},
		},
		"jwt of Ory without demands": {
			`accessStrategies: [{handler: jwt, config: {trusted_issuers: [a], jwks_urls: [/b], required_scope: [], scope_strategy: exact, jwks_ttl: 30s}}]`,
			func(r *v2.Rule) { r.NoAuth, r.JWT = nil, token() },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := v2.Rule{Path: "/a", Methods: []v2.Method{"GET"}, NoAuth: new(true)}
			tc.want(&want)
			made, problems := convert(t, ruleOf(tc.fields))
			require.Empty(t, problems)
			require.Equal(t, []v2.Rule{want}, made.Spec.Rules)
		})
	}
}

func TestRuleThatCannotBeConvertedLeavesNone(t *testing.T) {
	t.Parallel()
	const each = "write an authentication for each issuer, with the keys of that issuer"
	tests := map[string]struct {
		fields string
		want   apirule.Problems
	}{
		"oauth2_introspection": {`accessStrategies: [{handler: oauth2_introspection, config: {required_scope: [read]}}]`, apirule.Problems{
			{Attribute: ".accessStrategies[0]", Message: `the handler "oauth2_introspection" has no counterpart: use extAuth with an authorizer of your own`},
		}},
		"another handler": {`accessStrategies: [{handler: cookie_session}]`, apirule.Problems{
			{Attribute: ".accessStrategies[0]", Message: `the handler "cookie_session" has no counterpart: use extAuth with an authorizer of your own`},
		}},
		"two ways": {`accessStrategies: [{handler: noop}, {handler: jwt}]`, apirule.Problems{
			{Attribute: ".accessStrategies", Message: "a rule has only one of noAuth, jwt and extAuth: use extAuth with an authorizer of your own that knows all ways"},
		}},
		"no way": {`accessStrategies: []`, apirule.Problems{
			{Attribute: ".accessStrategies", Message: "there are none: write noAuth, jwt or extAuth"},
		}},
		"jwt without a config": {`accessStrategies: [{handler: jwt}]`, apirule.Problems{
			{Attribute: ".accessStrategies[0].config", Message: "it has to be an object with issuers and their keys"},
		}},
		"jwt of Istio with more": {`accessStrategies: [{handler: jwt, config: {authentications: [{issuer: a, jwksUri: b}], jwks_urls: [c]}}]`, apirule.Problems{
			{Attribute: ".accessStrategies[0].config", Message: `it cannot be read: decode: json: unknown field "jwks_urls"`},
		}},
		"jwt of Ory with two issuers and no keys": {`accessStrategies: [{handler: jwt, config: {trusted_issuers: [a, b]}}]`, apirule.Problems{
			{Attribute: ".accessStrategies[0].config.trusted_issuers", Message: "there are 2: " + each},
			{Attribute: ".accessStrategies[0].config.jwks_urls", Message: "there are 0: " + each},
		}},
		"jwt of Ory with more": {`accessStrategies: [{handler: jwt, config: {trusted_issuers: [a], jwks_urls: [b], token_from: {header: c}, allowed_algorithms: [RS256], scope_strategy: wildcard}}]`, apirule.Problems{
			{Attribute: ".accessStrategies[0].config.allowed_algorithms", Message: "it has no counterpart, or another form than expected"},
			{Attribute: ".accessStrategies[0].config.token_from", Message: "it has no counterpart, or another form than expected"},
			{Attribute: ".accessStrategies[0].config.scope_strategy", Message: `scopes are compared exactly, not by "wildcard"`},
		}},
		"id_token": {`mutators: [{handler: id_token}]`, apirule.Problems{
			{Attribute: ".mutators[0]", Message: `the mutator "id_token" has no counterpart: let an authorizer of extAuth, or the Service, do its work`},
		}},
		"hydrator": {`mutators: [{handler: noop}, {handler: hydrator}]`, apirule.Problems{
			{Attribute: ".mutators[1]", Message: `the mutator "hydrator" has no counterpart: let an authorizer of extAuth, or the Service, do its work`},
		}},
		"a header of a template": {`mutators: [{handler: header, config: {headers: {X-User: "{{ print .Subject }}"}}}]`, apirule.Problems{
			{Attribute: ".mutators[0].config", Message: "X-User has a template, which nothing evaluates any more"},
		}},
		"a header without a value": {`mutators: [{handler: header}]`, apirule.Problems{
			{Attribute: ".mutators[0].config", Message: "it has to be an object of names and texts"},
		}},
		"a path": {`path: "/[a-z]+"`, apirule.Problems{
			{Attribute: ".path", Message: `the regular expression "/[a-z]+" cannot be written: use {*} for a segment, {**} for any number of them`},
		}},
		"a method": {`methods: [FETCH]`, apirule.Problems{{Attribute: ".methods", Message: `"FETCH" is no method`}}},
		"a time":   {`timeout: soon`, apirule.Problems{{Attribute: ".timeout", Message: `"soon" is no time from 1 to 3900 seconds`}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made, problems := convert(t, ruleOf(tc.fields))
			for i := range tc.want {
				tc.want[i].Attribute = ".spec.rules[0]" + tc.want[i].Attribute
			}
			require.Equal(t, tc.want, problems)
			require.Empty(t, made.Spec.Rules)
		})
	}
}

func TestOneRuleThatCannotBeConvertedTakesTheOthersAlong(t *testing.T) {
	t.Parallel()
	made, problems := convert(t, document(`rules:
- {path: /admin, methods: [GET], accessStrategies: [{handler: oauth2_introspection}]}
- {path: /.*, methods: [GET], accessStrategies: [{handler: no_auth}]}`))
	require.Len(t, problems, 1)
	require.Empty(t, made.Spec.Rules, "the second would let everyone in to /admin")
	require.NotEmpty(t, made.Spec.Hosts)
}

// "/foo(.*)" also was "/foobar", which the rules that it becomes leave to later ones.
func TestPathsThatALaterRuleWouldOpenAreNamed(t *testing.T) {
	t.Parallel()
	const token = `accessStrategies: [{handler: jwt, config: {trusted_issuers: [a], jwks_urls: [/b]}}]`
	tests := map[string]struct {
		later string
		lost  bool
	}{
		"every path without a token":   {`{path: /.*, methods: [GET], accessStrategies: [{handler: no_auth}]}`, true},
		"a longer name":                {`{path: /foobar, methods: [GET], accessStrategies: [{handler: no_auth}]}`, true},
		"another Service":              {`{path: "/{*}", methods: [GET], service: {name: other, port: 80}, ` + token + `}`, true},
		"another name":                 {`{path: /bar, methods: [GET], accessStrategies: [{handler: no_auth}]}`, false},
		"another method":               {`{path: /.*, methods: [PUT], accessStrategies: [{handler: no_auth}]}`, false},
		"the same in everything":       {`{path: /.*, methods: [GET, PUT], ` + token + `}`, false},
		"the same path without a word": {`{path: /foo/.*, methods: [GET], accessStrategies: [{handler: no_auth}]}`, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			made, problems := convert(t, document(fmt.Sprintf("rules:\n- {path: /foo(.*), methods: [GET, POST], %s}\n- %s", token, tc.later)))
			if !tc.lost {
				require.Empty(t, problems)
				require.Len(t, made.Spec.Rules, 3)
				return
			}
			require.Equal(t, apirule.Problems{{
				Attribute: ".spec.rules[0].path",
				Message:   `"/foo(.*)" stands for paths like /foox too, which rule 1 would answer: write a rule for each of them`,
			}}, problems)
			require.Empty(t, made.Spec.Rules)
		})
	}
}
