package differential

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/gateway/apirules"
)

// Envoy's configuration is written as JSON: its types in Go are many megabytes.
type (
	object map[string]any
	list   []any
)

const typePrefix = "type.googleapis.com/envoy."

// typed is an object of a type of Envoy's.
func typed(name string, of object) object {
	of["@type"] = typePrefix + name
	return of
}

// mesh is the part of a mesh that Istio would configure.
type mesh struct {
	apiRules    []apiRule
	services    map[types.NamespacedName]int32 // ports on this machine
	jwks        map[string]string              // keys by their URI
	authorizers []apirules.Authorizer
}

// configOf returns a config with the listener of the ingress gateway at a port, and those of Services' sidecars as
// sockets in a folder.
func configOf(m mesh, port int, folder string) object {
	listeners, clusters := list{listener("gateway", tcp(port), gatewayManager(m))}, list{}
	for service, at := range m.services {
		socket := object{"pipe": object{"path": filepath.Join(folder, service.Name)}}
		clusters = append(clusters, cluster(outbound(service), socket), cluster(inbound(service), tcp(int(at))))
		listeners = append(listeners, listener(service.Name, socket, sidecarManager(m, service)))
	}
	for i := range m.authorizers {
		clusters = append(clusters, cluster(m.authorizers[i].Name, tcp(int(m.authorizers[i].Port))))
	}
	return object{
		"node":             object{"id": "differential", "cluster": "differential"},
		"static_resources": object{"listeners": listeners, "clusters": clusters},
	}
}

func tcp(port int) object {
	return object{"socket_address": object{"address": "127.0.0.1", "port_value": port}}
}

func outbound(service types.NamespacedName) string { return "outbound|" + service.String() }
func inbound(service types.NamespacedName) string  { return "inbound|" + service.String() }

func cluster(name string, address object) object {
	return object{
		"name": name, "type": "STATIC", "connect_timeout": "5s",
		"load_assignment": object{"cluster_name": name, "endpoints": list{object{
			"lb_endpoints": list{object{"endpoint": object{"address": address}}},
		}}},
	}
}

func listener(name string, address, manager object) object {
	return object{
		"name": name, "address": address, "enable_reuse_port": false,
		"filter_chains": list{object{"filters": list{
			object{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager},
		}}},
	}
}

// connectionManager has what is common to gateways and sidecars. Istio normalises paths in both, without slashes.
func connectionManager(name string, virtualHosts, filters list) object {
	router := filter("router", typed("extensions.filters.http.router.v3.Router", object{}))
	return typed("extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", object{
		"stat_prefix": name, "codec_type": "AUTO", "normalize_path": true, "path_with_escaped_slashes_action": "KEEP_UNCHANGED",
		"upgrade_configs": list{object{"upgrade_type": "websocket"}},
		"route_config":    object{"name": name, "virtual_hosts": virtualHosts, "validate_clusters": true},
		"http_filters":    append(filters, router),
	})
}

func filter(name string, config object) object {
	return object{"name": "envoy.filters.http." + name, "typed_config": config}
}

func exact(text string) object { return object{"exact": text} }
func regex(text string) object { return object{"safe_regex": object{"regex": text}} }

func seconds(number int64) string { return strconv.FormatInt(number, 10) + "s" }

// gatewayManager is the ingress gateway: a virtual host for each APIRule, as of its VirtualService.
func gatewayManager(m mesh) object {
	virtualHosts := list{}
	for i := range m.apiRules {
		virtualHosts = append(virtualHosts, virtualHost(&m.apiRules[i]))
	}
	manager := connectionManager("gateway", virtualHosts, list{filter("cors", typed("extensions.filters.http.cors.v3.Cors", object{}))})
	manager["use_remote_address"], manager["stream_idle_timeout"] = true, seconds(int64(silence.Seconds()))
	return manager
}

// virtualHost accepts any port, but with a wildcard only that of the gateway, as Envoy has one wildcard for a host.
func virtualHost(r *apiRule) object {
	port := "*"
	if strings.HasPrefix(r.host, "*") {
		port = "80"
	}
	routes := list{}
	for i := range r.spec.Rules {
		routes = append(routes, route(r, &r.spec.Rules[i]))
	}
	return object{"name": r.host, "domains": list{r.host, r.host + ":" + port}, "routes": routes}
}

func route(r *apiRule, rule *v2.Rule) object {
	match := regex(pathRegex(rule.Path))
	if rule.Path == "/*" {
		match = object{"prefix": "/"}
	}
	match["headers"] = list{object{"name": ":method", "string_match": regex("^(" + strings.Join(methodsOf(rule), "|") + ")$")}}
	route := object{
		"match": match,
		"route": object{
			"cluster": outbound(r.target(rule)), "timeout": seconds(int64(timeoutOf(r, rule))),
			"retry_policy": object{
				"retry_on": "connect-failure,refused-stream,unavailable,cancelled", "num_retries": 2,
				"retry_host_predicate": list{object{
					"name":         "envoy.retry_host_predicates.previous_hosts",
					"typed_config": typed("extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate", object{}),
				}},
				"host_selection_retry_max_attempts": "5",
			},
		},
		"request_headers_to_add": requestHeaders(r, rule),
		"response_headers_to_remove": list{
			"access-control-allow-origin", "access-control-expose-headers", "access-control-allow-headers",
			"access-control-allow-credentials", "access-control-allow-methods", "access-control-max-age",
		},
	}
	if policy := r.spec.CORSPolicy; policy != nil && len(policy.AllowOrigins) > 0 {
		route["typed_per_filter_config"] = object{"envoy.filters.http.cors": corsPolicy(policy)}
	}
	return route
}

// pathRegex is Kyma's: the characters of a path are not quoted in it.
func pathRegex(path string) string {
	path = strings.ReplaceAll(path, "{**}", `([A-Za-z0-9-._~!$&'()*+,;=:@/]|%[0-9a-fA-F]{2})*`)
	path = strings.ReplaceAll(path, "{*}", `([A-Za-z0-9-._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2})+`)
	return "^" + path + "$"
}

func timeoutOf(r *apiRule, rule *v2.Rule) v2.Timeout {
	switch {
	case rule.Timeout != nil:
		return *rule.Timeout
	case r.spec.Timeout != nil:
		return *r.spec.Timeout
	default:
		return v2.DefaultTimeout
	}
}

func requestHeaders(r *apiRule, rule *v2.Rule) list {
	set := map[string]string{"x-forwarded-host": r.host}
	if strings.HasPrefix(r.host, "*") {
		set["x-forwarded-host"] = "%REQ(:authority)%"
	}
	if rule.Request != nil {
		maps.Copy(set, rule.Request.Headers)
		var cookies []string
		for _, name := range slices.Sorted(maps.Keys(rule.Request.Cookies)) {
			cookies = append(cookies, name+"="+rule.Request.Cookies[name])
		}
		if len(cookies) > 0 {
			set["Cookie"] = strings.Join(cookies, "; ")
		}
	}
	headers := list{}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		headers = append(headers, object{
			"header": object{"key": name, "value": set[name]}, "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
		})
	}
	return headers
}

func corsPolicy(policy *v2.CORSPolicy) object {
	origins := list{}
	for _, match := range policy.AllowOrigins {
		for kind, value := range match {
			switch kind {
			case v2.MatchExact:
				origins = append(origins, exact(value))
			case v2.MatchRegex:
				origins = append(origins, regex(value))
			default:
				origins = append(origins, object{"prefix": value})
			}
		}
	}
	cors := typed("extensions.filters.http.cors.v3.CorsPolicy", object{
		"allow_origin_string_match": origins, "filter_enabled": object{"default_value": object{"numerator": 100}},
		"allow_methods": strings.Join(policy.AllowMethods, ","), "allow_headers": strings.Join(policy.AllowHeaders, ","),
		"expose_headers": strings.Join(policy.ExposeHeaders, ","),
	})
	if policy.AllowCredentials != nil {
		cors["allow_credentials"] = *policy.AllowCredentials
	}
	if policy.MaxAge != nil {
		cors["max_age"] = strconv.FormatInt(*policy.MaxAge, 10)
	}
	return cors
}

func methodsOf(rule *v2.Rule) []string {
	methods := make([]string, len(rule.Methods))
	for i, method := range rule.Methods {
		methods[i] = string(method)
	}
	return methods
}

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

// permission returns the permission of an operation: hosts, methods, paths, and the paths of earlier rules with a
// common method.
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

// authorizerFilters call an authorizer for the requests of its rules, selected by a policy that only marks them.
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
