package conversion

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
)

// document returns an APIRule of version v1beta1 whose spec has the given fields besides the required ones.
func document(fields string) string {
	spec := map[string]string{
		"host":    "host: price.example.com",
		"gateway": "gateway: kyma-system/kyma-gateway",
		"service": "service: {name: price, port: 80}",
		"rules":   "rules: [{path: /a, methods: [GET], accessStrategies: [{handler: no_auth}]}]",
	}
	lines := []string{"apiVersion: gateway.kyma-project.io/v1beta1", "kind: APIRule", "metadata: {name: price, namespace: shop}", "spec:"}
	for _, key := range []string{"host", "gateway", "service", "rules"} {
		if !strings.HasPrefix(fields, key+":") {
			lines = append(lines, "  "+spec[key])
		}
	}
	return strings.Join(append(lines, "  "+strings.ReplaceAll(fields, "\n", "\n  ")), "\n")
}

// ruleOf returns the document with one rule, which has the given fields in place of the required ones.
func ruleOf(fields string) string {
	needed := []string{fields}
	for key, value := range map[string]string{"path": "/a", "methods": "[GET]", "accessStrategies": "[{handler: no_auth}]"} {
		if !strings.Contains(fields, key+":") {
			needed = append(needed, key+": "+value)
		}
	}
	return document("rules: [{" + strings.Join(needed, ", ") + "}]")
}

func convert(t *testing.T, document string) (*v2.APIRule, apirule.Problems) {
	t.Helper()
	made, problems, err := ConvertAPIRule([]byte(document))
	require.NoError(t, err)
	return made, problems
}

func TestAPIRuleOfTheCommandLineOfKymaIsConverted(t *testing.T) {
	t.Parallel()
	made, problems := convert(t, `
apiVersion: gateway.kyma-project.io/v1beta1
kind: APIRule
metadata:
  name: price
  namespace: shop
  labels: {app: price}
  annotations: {gateway.kyma-project.io/original-version: v1beta1, kubectl.kubernetes.io/last-applied-configuration: "{}", a: b}
  uid: 0f0e
  finalizers: [gateway.kyma-project.io/subresources]
spec:
  host: Price.example.com
  gateway: kyma-system/kyma-gateway
  service: {name: price, namespace: shop, port: 80}
  rules:
    - path: /.*
      methods: [GET, POST]
      accessStrategies: [{handler: noop}]
      timeout: 30
status:
  lastProcessedTime: "2026-01-02T03:04:05Z"
  APIRuleStatus: {code: OK, desc: done}
`)
	require.Empty(t, problems)
	require.Equal(t, &v2.APIRule{
		TypeMeta: metav1.TypeMeta{APIVersion: "gateway.kyma-project.io/v2", Kind: "APIRule"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "price", Namespace: "shop", Labels: map[string]string{"app": "price"}, Annotations: map[string]string{"a": "b"},
		},
		Spec: v2.APIRuleSpec{
			Hosts:   []v2.Host{"price.example.com"},
			Gateway: new("kyma-system/kyma-gateway"),
			Service: &v2.Service{Name: "price", Namespace: "shop", Port: 80},
			CORSPolicy: &v2.CORSPolicy{
				AllowOrigins: []v2.StringMatch{{"regex": ".*"}},
				AllowMethods: []string{"GET", "POST", "PUT", "DELETE", "PATCH"},
				AllowHeaders: []string{"Authorization", "Content-Type", "*"},
			},
			Rules: []v2.Rule{{Path: "/*", Methods: []v2.Method{"GET", "POST"}, NoAuth: new(true), Timeout: new(v2.Timeout(30))}},
		},
		Status: v2.APIRuleStatus{
			LastProcessedTime: new(metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Local())),
			State:             v2.StateReady, Description: "done",
		},
	}, made)
}

func TestFieldsOfTheSpecAreConverted(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fields string
		want   func(*v2.APIRuleSpec)
	}{
		"a short host":                              {`host: price`, func(s *v2.APIRuleSpec) { s.Hosts = []v2.Host{"price"} }},
		"a gateway by its Service's name":           {`gateway: gw.istio.svc.cluster.local`, func(s *v2.APIRuleSpec) { s.Gateway = new("istio/gw") }},
		"a gateway by a part of its Service's name": {`gateway: gw.istio.svc`, func(s *v2.APIRuleSpec) { s.Gateway = new("istio/gw") }},
		"a gateway by name and namespace":           {`gateway: gw.istio`, func(s *v2.APIRuleSpec) { s.Gateway = new("istio/gw") }},
		"a gateway of its namespace":                {`gateway: gw`, func(s *v2.APIRuleSpec) { s.Gateway = new("shop/gw") }},
		"a time in seconds":                         {`timeout: 3900`, func(s *v2.APIRuleSpec) { s.Timeout = new(v2.Timeout(3900)) }},
		"a time with a unit":                        {`timeout: 1m1.5s`, func(s *v2.APIRuleSpec) { s.Timeout = new(v2.Timeout(62)) }},
		"an external Service":                       {`service: {name: price, port: 80, external: true}`, func(s *v2.APIRuleSpec) { s.Service.External = new(true) }},
		"Services of rules only":                    {`service: null`, func(s *v2.APIRuleSpec) { s.Service = nil }},
		"an empty corsPolicy has no effect":         {`corsPolicy: {}`, func(s *v2.APIRuleSpec) { s.CORSPolicy = &v2.CORSPolicy{} }},
		"origins, and an age with its units": {`corsPolicy: {allowOrigins: [{exact: a}, {prefix: b}], allowMethods: [GET], allowHeaders: [C], exposeHeaders: [D], allowCredentials: true, maxAge: 10m}`, func(s *v2.APIRuleSpec) {
			s.CORSPolicy = &v2.CORSPolicy{
				AllowOrigins: []v2.StringMatch{{"exact": "a"}, {"prefix": "b"}}, AllowMethods: []string{"GET"}, AllowHeaders: []string{"C"},
				ExposeHeaders: []string{"D"}, AllowCredentials: new(true), MaxAge: new(int64(600)),
			}
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, problems := convert(t, document(""))
			require.Empty(t, problems)
			tc.want(&want.Spec)
			made, problems := convert(t, document(tc.fields))
			require.Empty(t, problems)
			require.Equal(t, want.Spec, made.Spec)
		})
	}
}

func TestFieldsOfTheSpecThatCannotBeConvertedAreNamed(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ fields, attribute, message string }{
		"no host":                        {`host: ""`, ".spec.host", `"" is no fully qualified domain name and no single label: write a host of letters, digits and hyphens`},
		"a host with an underscore":      {`host: a_b.example.com`, ".spec.host", `"a_b.example.com" is no fully qualified domain name and no single label: write a host of letters, digits and hyphens`},
		"a gateway with an underscore":   {`gateway: a/b_c`, ".spec.gateway", `"a/b_c" does not name a namespace and a gateway: write namespace/name`},
		"a gateway with a longer domain": {`gateway: a.b.c`, ".spec.gateway", `"a.b.c" does not name a namespace and a gateway: write namespace/name`},
		"no gateway":                     {`gateway: ""`, ".spec.gateway", `"" does not name a namespace and a gateway: write namespace/name`},
		"no time":                        {`timeout: 0`, ".spec.timeout", `0 is no time from 1 to 3900 seconds`},
		"a time too long":                {`timeout: 66m`, ".spec.timeout", `"66m" is no time from 1 to 3900 seconds`},
		"an age below a second":          {`corsPolicy: {maxAge: 10ms}`, ".spec.corsPolicy.maxAge", `"10ms" is no time of at least a second`},
		"no rules":                       {`rules: []`, ".spec.rules", `there are 0: write at least 1, and at most 1000`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := convert(t, document(tc.fields))
			require.Equal(t, apirule.Problems{{Attribute: tc.attribute, Message: tc.message}}, problems)
		})
	}
}

func TestStatusIsConverted(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]v2.State{"OK": v2.StateReady, "WARNING": v2.StateWarning, "ERROR": v2.StateError, "SKIPPED": v2.StateWarning, "": ""} {
		made, _ := convert(t, document("")+"\nstatus: {APIRuleStatus: {code: '"+code+"', desc: why}}")
		require.Equal(t, v2.APIRuleStatus{State: want, Description: "why"}, made.Status)
	}
}

func TestOldestVersionHasItsHostInTheService(t *testing.T) {
	t.Parallel()
	made, problems := convert(t, `
apiVersion: gateway.kyma-project.io/v1alpha1
kind: APIRule
metadata: {name: price, namespace: shop}
spec:
  gateway: kyma-gateway.kyma-system.svc.cluster.local
  service: {host: price, name: price, port: 80}
  rules: [{path: /a, methods: [get], accessStrategies: [{handler: allow}]}]
`)
	require.Empty(t, problems)
	require.Equal(t, []v2.Host{"price"}, made.Spec.Hosts)
	require.Equal(t, "kyma-system/kyma-gateway", *made.Spec.Gateway)
	require.Equal(t, []v2.Rule{{Path: "/a", Methods: []v2.Method{"GET"}, NoAuth: new(true)}}, made.Spec.Rules)
}

func TestSpecInTheAnnotationOfKymaIsConverted(t *testing.T) {
	t.Parallel()
	made, problems := convert(t, `
apiVersion: gateway.kyma-project.io/v2
kind: APIRule
metadata:
  name: price
  namespace: shop
  annotations:
    gateway.kyma-project.io/original-version: v1beta1
    gateway.kyma-project.io/v1beta1-spec: '{"host":"price","gateway":"a/b","service":{"name":"price","port":80},"rules":[{"path":"/a(.*)","methods":["GET"],"accessStrategies":[{"handler":"allow"}]}]}'
spec: {}
status: {state: Warning}
`)
	require.Empty(t, problems)
	require.Equal(t, "price", made.Name)
	require.Empty(t, made.Annotations)
	require.Equal(t, []v2.Host{"price"}, made.Spec.Hosts)
	require.Len(t, made.Spec.Rules, 2)
	require.Empty(t, made.Status, "it is one of the later version")
}

func TestOtherDocumentsAreRefused(t *testing.T) {
	t.Parallel()
	object := func(version, kind, annotations string) string {
		return "apiVersion: " + version + "\nkind: " + kind + "\nmetadata: {annotations: {" + annotations + "}}"
	}
	const kept = "gateway.kyma-project.io/v1beta1-spec: "
	for name, document := range map[string]string{
		"another kind":         object("gateway.kyma-project.io/v1beta1", "RateLimit", ""),
		"another group":        object("example.com/v1beta1", "APIRule", ""),
		"the current version":  object("gateway.kyma-project.io/v2", "APIRule", ""),
		"v2 with another spec": object("gateway.kyma-project.io/v2", "APIRule", "gateway.kyma-project.io/original-version: v2, "+kept+"'{}'"),
		"nothing":              "",
	} {
		_, _, err := ConvertAPIRule([]byte(document))
		require.ErrorIs(t, err, ErrNotOldAPIRule, name)
	}
	for name, document := range map[string]string{
		"malformed YAML":          "{",
		"a list":                  "- a",
		"rules that are a string": document("rules: all"),
		"a broken annotation":     object("gateway.kyma-project.io/v2", "APIRule", "gateway.kyma-project.io/original-version: v1beta1, "+kept+"'{'"),
		"a document larger than a cluster stores": strings.Repeat(" ", MaxDocument+1),
	} {
		_, _, err := ConvertAPIRule([]byte(document))
		require.Error(t, err, name)
		require.NotErrorIs(t, err, ErrNotOldAPIRule, name)
	}
}

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
		"jwt of Ory without requirements": {
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

func TestRuleThatCannotBeConvertedFailsTheAPIRule(t *testing.T) {
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
		"two access strategies": {`accessStrategies: [{handler: noop}, {handler: jwt}]`, apirule.Problems{
			{Attribute: ".accessStrategies", Message: "a rule has only one of noAuth, jwt and extAuth: use extAuth with an authorizer of your own that knows all ways"},
		}},
		"no access strategy": {`accessStrategies: []`, apirule.Problems{
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

func TestRuleThatCannotBeConvertedLeavesNoRules(t *testing.T) {
	t.Parallel()
	made, problems := convert(t, document(`rules:
- {path: /admin, methods: [GET], accessStrategies: [{handler: oauth2_introspection}]}
- {path: /.*, methods: [GET], accessStrategies: [{handler: no_auth}]}`))
	require.Len(t, problems, 1)
	require.Empty(t, made.Spec.Rules, "the second would let everyone in to /admin")
	require.NotEmpty(t, made.Spec.Hosts)
}

// "/foo(.*)" also matched "/foobar", which the converted rules leave to later ones.
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
		"an identical rule":            {`{path: /.*, methods: [GET, PUT], ` + token + `}`, false},
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
