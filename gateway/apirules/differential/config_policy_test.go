package differential

import (
	"fmt"
	"slices"
	"strings"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

// policyFilter allows what at least one rule allows.
func policyFilter(rules []ruleAt) object {
	policies := object{}
	for _, rule := range rules {
		for i, principal := range rule.principals() {
			policies[fmt.Sprintf("%s-%d", rule.name(), i)] = object{"permissions": list{rule.permission()}, "principals": list{principal}}
		}
	}
	return filter("rbac", typed("extensions.filters.http.rbac.v3.RBAC", object{"rules": object{"action": "ALLOW", "policies": policies}}))
}

func (r ruleAt) name() string { return fmt.Sprintf("%s-%d", r.apiRule.host, r.index) }

// permission is that of an operation: hosts, methods, paths, and the paths of earlier rules that share a method.
func (r ruleAt) permission() object {
	methods := list{}
	for _, method := range methodsOf(r.Rule) {
		methods = append(methods, object{"header": object{"name": ":method", "string_match": exact(method)}})
	}
	all := list{
		object{"header": object{"name": ":authority", "string_match": hostMatch(r.apiRule.host)}},
		object{"or_rules": object{"rules": methods}},
		pathPermission(r.Path),
	}
	for i := range r.index {
		earlier := &r.apiRule.spec.Rules[i]
		whole := earlier.Path == "/" || earlier.Path == "/*" || earlier.Path == "/{**}"
		if !whole && shareMethod(earlier, r.Rule) {
			all = append(all, object{"not_rule": pathPermission(earlier.Path)})
		}
	}
	return object{"and_rules": object{"rules": all}}
}

// hostMatch allows a port, as Kyma's policies have the host with and without one.
func hostMatch(host string) object {
	return regex(`(?i)` + strings.ReplaceAll(strings.ReplaceAll(host, ".", `\.`), "*", ".*") + `(:[0-9]+)?`)
}

// pathPermission matches a template by Envoy's own matcher, and any other path as it is.
func pathPermission(path string) object {
	if path == "/*" {
		path = "/{**}"
	}
	if !strings.Contains(path, "{") {
		return object{"url_path": object{"path": exact(path)}}
	}
	template := strings.ReplaceAll(strings.ReplaceAll(path, "{**}", "**"), "{*}", "*")
	return object{"uri_template": object{
		"name":         "envoy.path.match.uri_template.uri_template_matcher",
		"typed_config": typed("extensions.path.match.uri_template.v3.UriTemplateMatchConfig", object{"path_template": template}),
	}}
}

func shareMethod(a, b *v2.Rule) bool {
	return slices.ContainsFunc(a.Methods, func(m v2.Method) bool { return slices.Contains(b.Methods, m) })
}

func anyone() object { return object{"any": true} }

// principals are alternatives: one for each authorization, with scopes one for each claim that may hold them.
func (r ruleAt) principals() list {
	jwt := r.tokens()
	if jwt == nil {
		return list{anyone()}
	}
	issuers := list{}
	for _, authentication := range jwt.Authentications {
		issuers = append(issuers, and(
			claim("iss", object{"string_match": exact(authentication.Issuer)}), claim("sub", object{"string_match": regex(".+")}),
		))
	}
	issued := object{"or_ids": object{"ids": issuers}}
	if len(jwt.Authorizations) == 0 {
		return list{issued}
	}
	principals := list{}
	for _, authorization := range jwt.Authorizations {
		for _, name := range []string{"scp", "scope", "scopes"} {
			all := list{issued}
			for _, scope := range authorization.RequiredScopes {
				all = append(all, claim(name, oneOf(scope)))
			}
			for _, audience := range authorization.Audiences {
				all = append(all, claim("aud", oneOf(audience)))
			}
			principals = append(principals, and(all...))
			if len(authorization.RequiredScopes) == 0 {
				break
			}
		}
	}
	return principals
}

func and(ids ...any) object { return object{"and_ids": object{"ids": ids}} }

func claim(name string, value object) object {
	return object{"metadata": object{
		"filter": "envoy.filters.http.jwt_authn", "path": list{object{"key": "payload"}, object{"key": name}}, "value": value,
	}}
}

// oneOf is a text, or a list with it.
func oneOf(text string) object {
	value := object{"string_match": exact(text)}
	return object{"or_match": object{"value_matchers": list{object{"list_match": object{"one_of": value}}, value}}}
}
