package apirule

import (
	"fmt"
	"reflect"
	"slices"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

// MaxRules is how many rules an APIRule may have. They are compared with one another.
const MaxRules = 1000

// Paths of attributes. Kyma writes those of gateways without the dot, and people and tests look for it.
const (
	attributeSpec            = ".spec"
	attributeHosts           = ".spec.hosts"
	attributeRules           = ".spec.rules"
	attributeGateway         = "spec.gateway"
	attributeExternalGateway = "spec.externalGateway"
)

const (
	messageEmpty           = "APIRule contains an empty spec. One of version v1beta1 has to be written again in version v2"
	messageNoGateway       = "Either gateway or externalGateway must be specified"
	messageTwoGateways     = "Only one of gateway or externalGateway can be specified"
	messageGatewayMissing  = "Could not get specified Gateway"
	messageExternalGateway = "Could not get specified ExternalGateway. There are none without Kyma: set spec.gateway instead"
	messageNoHosts         = "No hosts defined"
	messageHost            = "Host must be a valid FQDN or short host name"
	messageNoDomain        = "Lowercase RFC 1123 label is only supported as the APIRule host when selected Gateway has a single host definition matching *.<fqdn> format"
	messageHostTaken       = "Host is occupied by another "
	messageNoRules         = "No rules defined"
	messageTooManyRules    = "%d rules are defined, at most %d are supported. Write several APIRules, each with a host of its own"
	messageNoService       = "The rule must define a service, because no service is defined on spec level"
	messageServiceMissing  = "Target service %s not found"
	messageNoSelector      = "Target service label selectors are not defined"
	messageNoAuthorizer    = "Authorizer not found"
	messageConflict        = "Path %s with method %s conflicts with at least one of the previous rule paths"
)

// Validate finds everything that is wrong with an APIRule that its CRD accepts.
func Validate(apiRule *v2.APIRule, cluster Cluster) Problems {
	spec := &apiRule.Spec
	if reflect.DeepEqual(*spec, v2.APIRuleSpec{}) {
		return one(attributeSpec, messageEmpty)
	}
	return slices.Concat(validateGateway(spec, cluster), validateRules(apiRule, cluster), validateHosts(spec, cluster))
}

func validateGateway(spec *v2.APIRuleSpec, cluster Cluster) Problems {
	switch {
	case spec.Gateway == nil && spec.ExternalGateway == nil:
		return one(attributeSpec, messageNoGateway)
	case spec.Gateway != nil && spec.ExternalGateway != nil:
		return one(attributeSpec, messageTwoGateways)
	case spec.ExternalGateway != nil:
		return one(attributeExternalGateway, messageExternalGateway)
	case cluster.Gateway == nil:
		return one(attributeGateway, messageGatewayMissing)
	default:
		return nil
	}
}

func validateHosts(spec *v2.APIRuleSpec, cluster Cluster) Problems {
	if len(spec.Hosts) == 0 {
		return one(attributeHosts, messageNoHosts)
	}
	var problems Problems
	for i, host := range spec.Hosts {
		attribute := fmt.Sprintf("%s[%d]", attributeHosts, i)
		_, hasDomain := cluster.Gateway.domain()
		switch _, valid := FullHost(host, cluster.Gateway); {
		case isShort(host) && cluster.Gateway == nil: // that is a problem already
		case isShort(host) && !hasDomain:
			problems = append(problems, Problem{Attribute: attribute, Message: messageNoDomain})
		case !valid:
			problems = append(problems, Problem{Attribute: attribute, Message: messageHost})
		case cluster.HostOwner != "":
			problems = append(problems, Problem{Attribute: attribute, Message: messageHostTaken + cluster.HostOwner})
		}
	}
	return problems
}

func validateRules(apiRule *v2.APIRule, cluster Cluster) Problems {
	rules := apiRule.Spec.Rules
	switch {
	case len(rules) == 0:
		return one(attributeRules, messageNoRules)
	case len(rules) > MaxRules:
		return one(attributeRules, fmt.Sprintf(messageTooManyRules, len(rules), MaxRules))
	}
	var problems Problems
	for i := range rules {
		problems = slices.Concat(problems,
			validateService(i, apiRule, cluster),
			validateAccess(i, &rules[i], cluster),
			validatePath(attributeOfRule(i), rules[i].Path),
		)
	}
	return slices.Concat(problems, conflicts(rules), differingAuthentications(rules))
}

func attributeOfRule(i int) string { return fmt.Sprintf("%s[%d]", attributeRules, i) }

func validateService(rule int, apiRule *v2.APIRule, cluster Cluster) Problems {
	attribute := attributeOfRule(rule)
	target, named := TargetOf(apiRule, &apiRule.Spec.Rules[rule])
	if !named {
		return one(attribute+".service", messageNoService)
	}
	switch service, exists := cluster.Services[target.Service]; {
	case !exists:
		return missing(rule, attribute, fmt.Sprintf(messageServiceMissing, target.Service))
	case !service.Selects:
		return missing(rule, attribute, messageNoSelector)
	default:
		return nil
	}
}

func validateAccess(index int, rule *v2.Rule, cluster Cluster) Problems {
	attribute := attributeOfRule(index)
	if rule.JWT != nil {
		return validateJWT(attribute+".jwt", rule.JWT)
	}
	if rule.ExtAuth == nil {
		return nil
	}
	var problems Problems
	if rule.ExtAuth.Restrictions != nil {
		problems = validateJWT(attribute+".extAuth", rule.ExtAuth.Restrictions)
	}
	for _, name := range rule.ExtAuth.Authorizers {
		if !cluster.Authorizers[name] {
			problems = append(problems, missing(index, attribute+".extAuth.externalAuthorizers."+name, messageNoAuthorizer)...)
		}
	}
	return problems
}

func validatePath(attribute, path string) Problems {
	if _, err := ParsePattern(path); err != nil {
		return one(attribute+".path", err.Error())
	}
	return nil
}

// conflicts finds the rules that never answer with one of their methods, because an earlier one has it and covers their path. Paths
// that are not valid are a problem already.
func conflicts(rules []v2.Rule) Problems {
	var problems Problems
	routes := make([]Route, 0, len(rules))
	for i := range rules {
		route, err := NewRoute(&rules[i])
		if err != nil {
			continue
		}
		covered := route.coveredBy(routes)
		for bit, method := range methodNames {
			if covered&(1<<bit) != 0 {
				problems = append(problems, Problem{Attribute: attributeRules, Message: fmt.Sprintf(messageConflict, route.Path, method)})
			}
		}
		routes = append(routes, route)
	}
	return problems
}

// coveredBy are the methods with which earlier routes answer every request for the path.
func (r Route) coveredBy(earlier []Route) Methods {
	var covered Methods
	for i := range earlier {
		if shared := earlier[i].Methods & r.Methods; shared&^covered != 0 && earlier[i].Path.Covers(r.Path) {
			covered |= shared
		}
	}
	return covered
}
