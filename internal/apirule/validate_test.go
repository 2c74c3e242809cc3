package apirule

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

// valid returns an APIRule in a cluster that has all objects it names.
func valid() (*v2.APIRule, Cluster) {
	apiRule := &v2.APIRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "price"},
		Spec: v2.APIRuleSpec{
			Hosts:   []v2.Host{"price.example.com"},
			Gateway: new("kyma-system/kyma-gateway"),
			Service: &v2.Service{Name: "price", Port: 80},
			Rules:   []v2.Rule{{Path: "/*", Methods: []v2.Method{"GET"}, NoAuth: new(true)}},
		},
	}
	return apiRule, Cluster{
		Gateway:     &Gateway{Hosts: []string{"*.example.com", "*.example.com"}},
		Services:    map[types.NamespacedName]Service{{Namespace: "shop", Name: "price"}: {Selects: true}},
		Authorizers: []string{"sessions"},
	}
}

func withToken() *v2.JWT {
	return &v2.JWT{Authentications: []*v2.JWTAuthentication{{Issuer: "https://id.example.com", JWKSURI: "https://id.example.com/keys"}}}
}

func withJWT(change func(*v2.JWT)) func(*v2.APIRule, *Cluster) {
	return func(apiRule *v2.APIRule, _ *Cluster) {
		jwt := withToken()
		change(jwt)
		apiRule.Spec.Rules[0].NoAuth, apiRule.Spec.Rules[0].JWT = nil, jwt
	}
}

func withRules(rules ...v2.Rule) func(*v2.APIRule, *Cluster) {
	return func(apiRule *v2.APIRule, _ *Cluster) { apiRule.Spec.Rules = rules }
}

func TestAPIRuleIsValid(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*v2.APIRule, *Cluster){
		"a host with a domain":        func(*v2.APIRule, *Cluster) {},
		"a short host":                func(a *v2.APIRule, _ *Cluster) { a.Spec.Hosts[0] = "price" },
		"a wildcard":                  func(a *v2.APIRule, _ *Cluster) { a.Spec.Hosts[0] = "*.example.com" },
		"a host of another domain":    func(a *v2.APIRule, c *Cluster) { a.Spec.Hosts[0], c.Gateway.Hosts = "a.example.org", []string{""} },
		"a service of the rule alone": func(a *v2.APIRule, _ *Cluster) { a.Spec.Rules[0].Service, a.Spec.Service = a.Spec.Service, nil },
		"a token":                     withJWT(func(*v2.JWT) {}),
		"requirements on a token": withJWT(func(jwt *v2.JWT) {
			jwt.Authorizations = []*v2.JWTAuthorization{{RequiredScopes: []string{"read"}}, {Audiences: []string{"shop"}}, {}}
		}),
		"a name as issuer": withJWT(func(jwt *v2.JWT) { jwt.Authentications[0].Issuer = "shop" }),
		"keys at a path":   withJWT(func(jwt *v2.JWT) { jwt.Authentications[0].JWKSURI = "/keys" }),
		"several issuers": withJWT(func(jwt *v2.JWT) {
			jwt.Authentications = append(jwt.Authentications, &v2.JWTAuthentication{Issuer: "other", JWKSURI: "https://other.example.com"})
		}),
		"a token in headers of two issuers": withJWT(func(jwt *v2.JWT) {
			jwt.Authentications[0].FromHeaders = []v2.JWTHeader{{Name: "A"}}
			jwt.Authentications = append(jwt.Authentications,
				&v2.JWTAuthentication{Issuer: "other", JWKSURI: "https://other.example.com", FromHeaders: []v2.JWTHeader{{Name: "B"}}})
		}),
		"authorizers with restrictions": func(a *v2.APIRule, _ *Cluster) {
			a.Spec.Rules[0].NoAuth = nil
			a.Spec.Rules[0].ExtAuth = &v2.ExtAuth{Authorizers: []string{"sessions"}, Restrictions: withToken()}
		},
		"special before general":           withRules(ruleFor("/a/b", "GET"), ruleFor("/a/{*}", "GET"), ruleFor("/*", "GET")),
		"the same path with other methods": withRules(ruleFor("/a", "GET"), ruleFor("/a", "POST", "PUT")),
		"a general path of other methods":  withRules(ruleFor("/*", "GET"), ruleFor("/a", "POST")),
		"a method twice in a rule":         withRules(ruleFor("/a", "GET", "GET")),
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			apiRule, cluster := valid()
			change(apiRule, &cluster)
			require.Empty(t, Validate(apiRule, cluster))
		})
	}
}

func TestAPIRuleIsRefused(t *testing.T) {
	t.Parallel()
	const noDomain = "Lowercase RFC 1123 label is only supported as the APIRule host when selected Gateway has a single host definition matching *.<fqdn> format"
	short := func(hosts ...string) func(*v2.APIRule, *Cluster) {
		return func(a *v2.APIRule, c *Cluster) { a.Spec.Hosts[0], c.Gateway.Hosts = "price", hosts }
	}
	tests := map[string]struct {
		change             func(*v2.APIRule, *Cluster)
		attribute, message string
	}{
		"an empty spec": {
			func(a *v2.APIRule, _ *Cluster) { a.Spec = v2.APIRuleSpec{} },
			".spec", "APIRule contains an empty spec. One of version v1beta1 has to be written again in version v2",
		},
		"no gateway": {
			func(a *v2.APIRule, _ *Cluster) { a.Spec.Gateway = nil }, ".spec", "Either gateway or externalGateway must be specified",
		},
		"two gateways": {
			func(a *v2.APIRule, _ *Cluster) { a.Spec.ExternalGateway = new("a/b") }, ".spec", "Only one of gateway or externalGateway can be specified",
		},
		"a gateway that does not exist": {
			func(_ *v2.APIRule, c *Cluster) { c.Gateway = nil }, "spec.gateway", "Could not get specified Gateway",
		},
		"a short host at a gateway that does not exist": {
			func(a *v2.APIRule, c *Cluster) { a.Spec.Hosts[0], c.Gateway = "price", nil }, "spec.gateway", "Could not get specified Gateway",
		},
		"an external gateway": {
			func(a *v2.APIRule, _ *Cluster) { a.Spec.Gateway, a.Spec.ExternalGateway = nil, new("a/b") },
			"spec.externalGateway", "Could not get specified ExternalGateway. There are none without Kyma: set spec.gateway instead",
		},
		"no host":        {func(a *v2.APIRule, _ *Cluster) { a.Spec.Hosts = nil }, ".spec.hosts", "No hosts defined"},
		"a bad host":     {func(a *v2.APIRule, _ *Cluster) { a.Spec.Hosts[0] = "a_b.example.com" }, ".spec.hosts[0]", "Host must be a valid FQDN or short host name"},
		"a bad wildcard": {func(a *v2.APIRule, _ *Cluster) { a.Spec.Hosts[0] = "a.*.example.com" }, ".spec.hosts[0]", "Host must be a valid FQDN or short host name"},
		"a long host": {
			func(a *v2.APIRule, _ *Cluster) { a.Spec.Hosts[0] = v2.Host(strings.Repeat("a.", 127) + "com") },
			".spec.hosts[0]", "Host must be a valid FQDN or short host name",
		},
		"a short host that becomes too long": {
			short("*." + strings.Repeat("a.", 124) + "com"), ".spec.hosts[0]", "Host must be a valid FQDN or short host name",
		},
		"a short host at two domains":             {short("*.example.com", "*.example.org"), ".spec.hosts[0]", noDomain},
		"a short host at a single host":           {short("price.example.com"), ".spec.hosts[0]", noDomain},
		"a short host at every host":              {short(""), ".spec.hosts[0]", noDomain},
		"a short host at a gateway without hosts": {short(), ".spec.hosts[0]", noDomain},
		"a host of another APIRule":               {func(_ *v2.APIRule, c *Cluster) { c.HostOwner = "APIRule" }, ".spec.hosts[0]", "Host is occupied by another APIRule"},
		"no rules":                                {withRules(), ".spec.rules", "No rules defined"},
		"too many rules": {
			withRules(make([]v2.Rule, 1001)...), ".spec.rules",
			"1001 rules are defined, at most 1000 are supported. Write several APIRules, each with a host of its own",
		},
		"no service": {
			func(a *v2.APIRule, _ *Cluster) { a.Spec.Service = nil },
			".spec.rules[0].service", "The rule must define a service, because no service is defined on spec level",
		},
		"a service that does not exist": {
			func(a *v2.APIRule, _ *Cluster) { a.Spec.Rules[0].Service = &v2.Service{Name: "other", Port: 80} },
			".spec.rules[0]", "Target service shop/other not found",
		},
		"a service of another namespace": {
			func(a *v2.APIRule, _ *Cluster) { a.Spec.Service.Namespace = "other" }, ".spec.rules[0]", "Target service other/price not found",
		},
		"a service without a selector": {
			func(_ *v2.APIRule, c *Cluster) {
				c.Services[types.NamespacedName{Namespace: "shop", Name: "price"}] = Service{}
			},
			".spec.rules[0]", "Target service label selectors are not defined",
		},
		"a bad path": {withRules(ruleFor("/a/{**}/{*}", "GET")), ".spec.rules[0].path", "The {**} operator must be the last operator in the path."},
		"two {**}":   {withRules(ruleFor("/{**}/{**}", "GET")), ".spec.rules[0].path", "Only one {**} operator is allowed in the path."},
		"an authorizer that does not exist": {
			func(a *v2.APIRule, _ *Cluster) {
				a.Spec.Rules[0].NoAuth, a.Spec.Rules[0].ExtAuth = nil, &v2.ExtAuth{Authorizers: []string{"sessions", "unknown"}}
			},
			".spec.rules[0].extAuth.externalAuthorizers.unknown", "Authorizer not found",
		},
		"a general path first": {
			withRules(ruleFor("/a/{**}", "GET", "PUT"), ruleFor("/a/b", "POST", "PUT")), ".spec.rules",
			"Path /a/b with method PUT conflicts with at least one of the previous rule paths",
		},
		"all paths first": {
			withRules(ruleFor("/*", "GET"), ruleFor("/{**}", "GET")), ".spec.rules",
			"Path /{**} with method GET conflicts with at least one of the previous rule paths",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			apiRule, cluster := valid()
			tc.change(apiRule, &cluster)
			require.Equal(t, "Attribute '"+tc.attribute+"': "+tc.message, Validate(apiRule, cluster).String())
		})
	}
}

func TestAllProblemsAreFoundAtOnce(t *testing.T) {
	t.Parallel()
	apiRule, cluster := valid()
	cluster.Gateway = nil
	apiRule.Spec.Hosts[0] = "a..b"
	apiRule.Spec.Rules = []v2.Rule{
		{Path: "/a/{**}", Methods: []v2.Method{"GET", "POST"}, JWT: &v2.JWT{Authorizations: []*v2.JWTAuthorization{}}},
		{Path: "/{**}/{*}", Methods: []v2.Method{"GET"}, NoAuth: new(true)},
		{Path: "/a/b", Methods: []v2.Method{"POST", "GET"}, Service: &v2.Service{Name: "other"}, NoAuth: new(true)},
	}
	require.Equal(t, Problems{
		{Attribute: "spec.gateway", Message: "Could not get specified Gateway"},
		{Attribute: ".spec.rules[0].jwt.authorizations", Message: "authorizations defined, but no configuration exists"},
		{Attribute: ".spec.rules[0].jwt.authentications", Message: "A JWT config must have at least one authentication"},
		{Attribute: ".spec.rules[1].path", Message: "The {**} operator must be the last operator in the path."},
		{Attribute: ".spec.rules[2]", Message: "Target service shop/other not found", Closes: RuleAt(2)},
		{Attribute: ".spec.rules", Message: "Path /a/b with method GET conflicts with at least one of the previous rule paths"},
		{Attribute: ".spec.rules", Message: "Path /a/b with method POST conflicts with at least one of the previous rule paths"},
		{Attribute: ".spec.hosts[0]", Message: "Host must be a valid FQDN or short host name"},
	}, Validate(apiRule, cluster))
}

// This is the slowest case: the largest number of rules, with the longest paths, which differ only at their ends.
func TestLargestAPIRuleIsValidated(t *testing.T) {
	t.Parallel()
	apiRule, cluster := valid()
	apiRule.Spec.Rules = nil
	for i := range MaxRules {
		path := strings.Repeat("/a", 250) + fmt.Sprintf("/%03d/{*}", i)
		apiRule.Spec.Rules = append(apiRule.Spec.Rules, v2.Rule{Path: path, Methods: []v2.Method{"GET"}, NoAuth: new(true)})
	}
	require.Empty(t, Validate(apiRule, cluster))
}

func TestHostOfAShortNameHasTheDomainOfTheGateway(t *testing.T) {
	t.Parallel()
	gateway := &Gateway{Hosts: []string{"*.example.com"}}
	for host, want := range map[v2.Host]string{"price": "price.example.com", "a.example.org": "a.example.org", "*.example.org": "*.example.org"} {
		full, ok := FullHost(host, gateway)
		require.True(t, ok)
		require.Equal(t, want, full)
	}
	for _, host := range []v2.Host{"", "Price", "a.b_c", "*", "*.com", "a..b"} {
		_, ok := FullHost(host, gateway)
		require.False(t, ok, host)
	}
	_, ok := FullHost("price", nil)
	require.False(t, ok)
}

func TestServiceOfARuleIsInTheNearestNamespace(t *testing.T) {
	t.Parallel()
	apiRule, _ := valid()
	service := func(namespace, name string) *v2.Service {
		return &v2.Service{Namespace: namespace, Name: name, Port: 80}
	}
	for name, tc := range map[string]struct {
		spec, rule *v2.Service
		want       string
	}{
		"the rule's own":              {service("b", "s"), service("a", "r"), "a/r"},
		"of spec.service":             {service("b", "s"), service("", "r"), "b/r"},
		"of the APIRule":              {service("", "s"), service("", "r"), "shop/r"},
		"without spec.service":        {nil, service("", "r"), "shop/r"},
		"spec.service of its own":     {service("b", "s"), nil, "b/s"},
		"spec.service of the APIRule": {service("", "s"), nil, "shop/s"},
	} {
		apiRule.Spec.Service = tc.spec
		target, ok := TargetOf(apiRule, &v2.Rule{Service: tc.rule})
		require.True(t, ok, name)
		require.Equal(t, tc.want, target.Service.String(), name)
		require.Equal(t, int32(80), target.Port)
	}
}

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
