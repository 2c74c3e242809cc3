package differential

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

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
