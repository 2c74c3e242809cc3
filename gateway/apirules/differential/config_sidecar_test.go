package differential

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/gateway/apirules"
)

// sidecarManager is the proxy of a Service's pods: tokens of all rules that lead there, authorizers, then policies.
func sidecarManager(m mesh, service types.NamespacedName) object {
	rules := m.rulesOf(service)
	filters := list{}
	if tokens := m.tokenFilter(rules); tokens != nil {
		filters = append(filters, tokens)
	}
	for i := range m.authorizers {
		filters = append(filters, authorizerFilters(&m.authorizers[i], rules)...)
	}
	filters = append(filters, policyFilter(rules))
	return connectionManager(service.Name, list{object{"name": "inbound", "domains": list{"*"}, "routes": list{object{
		"match": object{"prefix": "/"}, "route": object{"cluster": inbound(service), "timeout": "0s"},
	}}}}, filters)
}

// ruleAt is a rule of an APIRule.
type ruleAt struct {
	apiRule *apiRule
	index   int
	*v2.Rule
}

// rulesOf lists the rules that lead to a Service.
func (m mesh) rulesOf(service types.NamespacedName) []ruleAt {
	var rules []ruleAt
	for i := range m.apiRules {
		r := &m.apiRules[i]
		for at := range r.spec.Rules {
			if rule := &r.spec.Rules[at]; r.target(rule) == service {
				rules = append(rules, ruleAt{apiRule: r, index: at, Rule: rule})
			}
		}
	}
	return rules
}

// tokens is the jwt object of a rule, or nil.
func (r ruleAt) tokens() *v2.JWT {
	if r.ExtAuth != nil {
		return r.ExtAuth.Restrictions
	}
	return r.JWT
}

// tokenFilter wants every token valid that is there, at any path: a RequestAuthentication is about the Service.
func (m mesh) tokenFilter(rules []ruleAt) object {
	var known []*v2.JWTAuthentication
	for _, rule := range rules {
		if jwt := rule.tokens(); jwt != nil {
			for _, authentication := range jwt.Authentications {
				if !slices.ContainsFunc(known, func(k *v2.JWTAuthentication) bool { return reflect.DeepEqual(k, authentication) }) {
					known = append(known, authentication)
				}
			}
		}
	}
	if len(known) == 0 {
		return nil
	}
	slices.SortStableFunc(known, func(a, b *v2.JWTAuthentication) int { return cmp.Compare(a.Issuer, b.Issuer) })
	providers, each, alone := object{}, list{}, list{}
	for i, authentication := range known {
		name := fmt.Sprintf("origins-%d", i)
		providers[name] = m.provider(authentication)
		each = append(each, object{"requires_any": object{"requirements": list{
			object{"provider_name": name}, object{"allow_missing": object{}},
		}}})
		alone = append(alone, object{"provider_name": name})
	}
	requires := each[0]
	if len(known) > 1 {
		requires = object{"requires_any": object{"requirements": append(alone, object{"requires_all": object{"requirements": each}})}}
	}
	return filter("jwt_authn", typed("extensions.filters.http.jwt_authn.v3.JwtAuthentication", object{
		"providers": providers, "bypass_cors_preflight": true,
		"rules": list{object{"match": object{"prefix": "/"}, "requires": requires}},
	}))
}

func (m mesh) provider(authentication *v2.JWTAuthentication) object {
	provider := object{
		"issuer": authentication.Issuer, "forward": true, "payload_in_metadata": "payload",
		"normalize_payload_in_metadata": object{"space_delimited_claims": list{"permission", "scope"}},
		"local_jwks":                    object{"inline_string": m.jwks[authentication.JWKSURI]},
	}
	headers := list{}
	for _, from := range authentication.FromHeaders {
		headers = append(headers, object{"name": from.Name, "value_prefix": from.Prefix})
	}
	if len(headers) > 0 {
		provider["from_headers"] = headers
	}
	if len(authentication.FromParams) > 0 {
		provider["from_params"] = authentication.FromParams
	}
	return provider
}

// authorizerFilters ask an authorizer about the requests that its rules are for, by a policy that only marks them.
func authorizerFilters(asked *apirules.Authorizer, rules []ruleAt) list {
	policies := object{}
	for _, rule := range rules {
		if rule.ExtAuth != nil && slices.Contains(rule.ExtAuth.Authorizers, asked.Name) {
			policies["istio-ext-authz-"+rule.name()] = object{"permissions": list{rule.permission()}, "principals": list{anyone()}}
		}
	}
	if len(policies) == 0 {
		return nil
	}
	mark := "istio_ext_authz_" + asked.Name + "_"
	return list{
		filter("rbac", typed("extensions.filters.http.rbac.v3.RBAC", object{
			"shadow_rules": object{"action": "DENY", "policies": policies}, "shadow_rules_stat_prefix": mark,
		})),
		filter("ext_authz", authorizerFilter(asked, object{
			"filter": "envoy.filters.http.rbac", "path": list{object{"key": mark + "shadow_effective_policy_id"}},
			"value": object{"string_match": object{"prefix": "istio-ext-authz"}},
		})),
	}
}

// authorizerFilter is a provider envoyExtAuthzHttp.
func authorizerFilter(a *apirules.Authorizer, enabled object) object {
	added := list{}
	for _, name := range slices.Sorted(maps.Keys(a.IncludeAdditionalHeadersInCheck)) {
		added = append(added, object{"key": name, "value": a.IncludeAdditionalHeadersInCheck[name]})
	}
	answer := object{}
	for field, headers := range map[string][]string{
		"allowed_upstream_headers": a.HeadersToUpstreamOnAllow, "allowed_client_headers": a.HeadersToDownstreamOnDeny,
		"allowed_client_headers_on_success": a.HeadersToDownstreamOnAllow,
	} {
		if len(headers) > 0 {
			answer[field] = names(headers)
		}
	}
	config := object{
		"transport_api_version": "V3", "filter_enabled_metadata": enabled,
		"http_service": object{
			"server_uri":             object{"uri": "http://" + a.Service, "cluster": a.Name, "timeout": seconds(int64(a.TimeoutSeconds))},
			"path_prefix":            a.Path,
			"authorization_request":  object{"headers_to_add": added},
			"authorization_response": answer,
		},
	}
	if len(a.IncludeRequestHeadersInCheck) > 0 {
		config["allowed_headers"] = names(a.IncludeRequestHeadersInCheck)
	}
	return typed("extensions.filters.http.ext_authz.v3.ExtAuthz", config)
}

func names(headers []string) object {
	patterns := list{}
	for _, name := range headers {
		patterns = append(patterns, object{"exact": name, "ignore_case": true})
	}
	return object{"patterns": patterns}
}
