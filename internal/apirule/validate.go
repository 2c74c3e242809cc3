package apirule

import (
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

// MaxRules limits the number of rules of an APIRule, which are compared pairwise.
const MaxRules = 1000

// Paths of attributes. Kyma writes those of gateways without the dot, and users and tests search for them.
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

// Validate returns all problems of an APIRule that its CRD accepts.
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
		case isShort(host) && cluster.Gateway == nil: // reported already
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
		if !slices.Contains(cluster.Authorizers, name) {
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

// conflicts finds the rules that never answer with one of their methods, because an earlier rule has it and covers
// their path. It skips invalid paths, which are reported elsewhere.
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

// coveredBy returns the methods with which earlier routes answer every request for the path.
func (r Route) coveredBy(earlier []Route) Methods {
	var covered Methods
	for i := range earlier {
		if shared := earlier[i].Methods & r.Methods; shared&^covered != 0 && earlier[i].Path.Covers(r.Path) {
			covered |= shared
		}
	}
	return covered
}

const (
	messageNoAuthentication    = "A JWT config must have at least one authentication"
	messageEmptyAuthentication = "authentication is empty"
	messageURI                 = "value is empty or not a valid uri err="
	messageMixture             = "mixture of multiple fromHeaders and fromParams is not supported"
	messageManyHeaders         = "multiple fromHeaders are not supported"
	messageManyParams          = "multiple fromParams are not supported"
	messageNoAuthorizations    = "authorizations defined, but no configuration exists"
	messageEmptyAuthorization  = "authorization is empty"
	messageEmptyValue          = "value is empty"
	messageEmptyScope          = "scope value is empty"
	messageEmptyAudience       = "audience value is empty"
	messageDiffering           = "multiple jwt configurations that differ for the same issuer"
)

func validateJWT(attribute string, jwt *v2.JWT) Problems {
	return append(
		validateAuthorizations(attribute+".authorizations", jwt.Authorizations),
		validateAuthentications(attribute+".authentications", jwt.Authentications)...,
	)
}

func validateAuthorizations(attribute string, authorizations []*v2.JWTAuthorization) Problems {
	if authorizations != nil && len(authorizations) == 0 {
		return one(attribute, messageNoAuthorizations)
	}
	var problems Problems
	for i, authorization := range authorizations {
		attribute := fmt.Sprintf("%s[%d]", attribute, i)
		if authorization == nil {
			problems = append(problems, Problem{Attribute: attribute, Message: messageEmptyAuthorization})
			continue
		}
		problems = slices.Concat(problems,
			validateValues(attribute+".requiredScopes", authorization.RequiredScopes, messageEmptyScope),
			validateValues(attribute+".audiences", authorization.Audiences, messageEmptyAudience),
		)
	}
	return problems
}

// validateValues accepts a missing list.
func validateValues(attribute string, values []string, emptyValue string) Problems {
	switch {
	case values == nil:
		return nil
	case len(values) == 0:
		return one(attribute, messageEmptyValue)
	case slices.Contains(values, ""):
		return one(attribute, emptyValue)
	default:
		return nil
	}
}

func validateAuthentications(attribute string, authentications []*v2.JWTAuthentication) Problems {
	if len(authentications) == 0 {
		return one(attribute, messageNoAuthentication)
	}
	var problems Problems
	var headers, params bool // of earlier authentications
	for i, authentication := range authentications {
		attribute := fmt.Sprintf("%s[%d]", attribute, i)
		if authentication == nil {
			problems = append(problems, Problem{Attribute: attribute, Message: messageEmptyAuthentication})
			continue
		}
		problems = slices.Concat(problems, validateIssuer(attribute, authentication), validatePlaces(attribute, authentication, headers, params))
		headers = headers || len(authentication.FromHeaders) > 0
		params = params || len(authentication.FromParams) > 0
	}
	return problems
}

func validateIssuer(attribute string, authentication *v2.JWTAuthentication) Problems {
	var problems Problems
	// An issuer with a colon has to be a URI (RFC 7519, 4.1.1).
	if issuer := authentication.Issuer; issuer == "" || strings.Contains(issuer, ":") {
		if reason := notURI(issuer); reason != "" {
			problems = append(problems, Problem{Attribute: attribute + ".issuer", Message: messageURI + reason})
		}
	}
	if reason := notURI(authentication.JWKSURI); reason != "" {
		problems = append(problems, Problem{Attribute: attribute + ".jwksUri", Message: messageURI + reason})
	}
	return problems
}

// notURI returns why a text is not a URI. It does not repeat the whole text, which may contain a password.
func notURI(text string) string {
	if text == "" {
		return messageEmptyValue
	}
	_, err := url.ParseRequestURI(text)
	if parse, ok := errors.AsType[*url.Error](err); ok {
		err = parse.Err
	}
	if err == nil {
		return ""
	}
	return err.Error()
}

// validatePlaces allows one place for tokens in a rule, of one kind, besides the default ones.
func validatePlaces(attribute string, authentication *v2.JWTAuthentication, headers, params bool) Problems {
	var problems Problems
	note := func(field, message string, wrong bool) {
		if wrong {
			problems = append(problems, Problem{Attribute: attribute + field, Message: message})
		}
	}
	fromHeaders, fromParams := len(authentication.FromHeaders), len(authentication.FromParams)
	note(".fromHeaders", messageMixture, fromHeaders > 0 && params)
	note(".fromParams", messageMixture, fromParams > 0 && (headers || fromHeaders > 0))
	note(".fromHeaders", messageManyHeaders, fromHeaders > 1)
	note(".fromParams", messageManyParams, fromParams > 1)
	return problems
}

// differingAuthentications finds authentications with the same issuer and keys but tokens in different places.
func differingAuthentications(rules []v2.Rule) Problems {
	type issuer struct{ name, keys string }
	first := map[issuer]*v2.JWTAuthentication{}
	var problems Problems
	for i := range rules {
		if rules[i].JWT == nil {
			continue
		}
		for j, authentication := range rules[i].JWT.Authentications {
			if authentication == nil {
				continue
			}
			named := issuer{authentication.Issuer, authentication.JWKSURI}
			switch known := first[named]; {
			case known == nil:
				first[named] = authentication
			case !slices.Equal(known.FromHeaders, authentication.FromHeaders), !slices.Equal(known.FromParams, authentication.FromParams):
				attribute := fmt.Sprintf("%s.jwt.authentications[%d]", attributeOfRule(i), j)
				problems = append(problems, Problem{Attribute: attribute, Message: messageDiffering})
			}
		}
	}
	return problems
}
