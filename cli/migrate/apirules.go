package migrate

import (
	"slices"
	"strings"
)

// maxHosts bounds how many hosts a text names.
const maxHosts = 10

// takeAPIRules has the release own the CRD, without Kyma's webhook, and serve the rules.
func (s *Survey) takeAPIRules() string {
	return "kubectl label crd apirules.gateway.kyma-project.io app.kubernetes.io/part-of=rouse, then " + s.upgrade() +
		"--take-ownership --set apiRules.enabled=true --set apiRules.domains.kyma-system/kyma-gateway=DOMAIN"
}

// apiRulesPart has Istio's objects go once Rouse's gateways serve the rule and the DNS of its host leads to them.
func apiRulesPart(s *Survey) Part {
	part := Part{Name: "APIRules"}
	switch {
	case s.NoAPIRules != "":
		part.Needs = append(part.Needs, "APIRules cannot be read as v2: "+s.NoAPIRules+
			". Convert what is stored in an older version with rouse convert, then "+s.takeAPIRules())
	case len(s.APIRules) == 0:
		return part
	case !s.Release.has("apirules"):
		part.Needs = append(part.Needs, "enable APIRules in the release: "+s.takeAPIRules())
	}
	var hosts []string
	for i := range s.APIRules {
		rule := &s.APIRules[i]
		if rule.OldSpec != "" {
			part.patch(rule.Object, "gets its spec of v1beta1 as v2", "", rule.OldSpec)
		}
		if rule.NoSpec != "" {
			part.Needs = append(part.Needs, "rewrite "+rule.String()+" as v2: "+rule.NoSpec)
		}
		if rule.Finalizer {
			part.patch(rule.Object, "is released from Kyma's finalizer", rule.withoutSpec(), rule.released)
		}
		rule.removeRest(&part, rule.after(s.HostsMoved))
		if len(rule.Rest) > 0 && rule.Ready && !s.HostsMoved {
			hosts = append(hosts, rule.Host)
		}
	}
	if len(hosts) > 0 {
		slices.Sort(hosts)
		hosts = slices.Compact(hosts)
		named := strings.Join(hosts[:min(len(hosts), maxHosts)], ", ")
		part.Needs = append(part.Needs, "point the DNS records of "+named+
			" to the gateways of Rouse, wait until their TTL has passed, and add --hosts-moved")
	}
	part.differ(Object{}, "calls inside the cluster to a Service that has an APIRule are not refused any more: "+
		"use a NetworkPolicy where its pods must not be called")
	return part
}

// withoutSpec is what changes of the APIRule wait for: the API server refuses those of an object without a spec.
func (r *APIRule) withoutSpec() string {
	if r.OldSpec+r.NoSpec == "" {
		return ""
	}
	return "its spec of v2"
}

// after is what the objects of Kyma's gateway wait for.
func (r *APIRule) after(hostsMoved bool) string {
	switch {
	case !r.Ready && r.Problem != "":
		return "the gateways of Rouse to serve " + r.Host + " (" + r.Problem + ")"
	case !r.Ready:
		return "the gateways of Rouse to serve " + r.Host
	case !hostsMoved:
		return "the DNS of " + r.Host + " to point to Rouse, confirmed by --hosts-moved"
	default:
		return ""
	}
}

// removeRest has the way to a workload go before what guards it.
func (r *APIRule) removeRest(part *Part, after string) {
	isWay := func(o Object) bool { return o.Kind == kindVirtualService }
	for _, rest := range r.Rest {
		if isWay(rest) {
			part.remove(rest, after)
		}
	}
	if after == "" && slices.ContainsFunc(r.Rest, isWay) {
		after = "its VirtualService to be deleted"
	}
	for _, rest := range r.Rest {
		if !isWay(rest) {
			part.remove(rest, after)
		}
	}
}
