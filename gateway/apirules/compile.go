package apirules

import (
	"fmt"
	"strings"
	"time"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/gateway/jwt"
	"github.com/rouse-run/rouse/internal/apirule"
)

// rule is one of an APIRule as requests need it. It does not change.
type rule struct {
	closed  bool
	timeout time.Duration
	backend apirule.Backend

	authorizers []*authorizer  // all of which have to allow a request
	tokens      *jwt.Validator // nil: none is asked for
	keyURIs     []string       // of the validator

	headers []header // in place of the caller's
	host    string   // in place of the caller's; empty: it is kept
}

type header struct{ name, value string }

// compile makes of an Exposure what serves it. What cannot be compiled closes its rule alone.
func (e *Exposed) compile(x *apirule.Exposure, fingerprint string) *host {
	h := &host{apiRule: x.APIRule, id: x.APIRule.String(), fingerprint: fingerprint, name: x.Host}
	h.cors, h.problems = compileCORS(x.CORS)
	for i := range x.Rules {
		route, compiled, problems := e.compileRule(x.APIRule.Namespace, &x.Rules[i])
		for _, problem := range problems {
			problem.Attribute, problem.Closes = fmt.Sprintf(".spec.rules[%d].%s", i, problem.Attribute), apirule.RuleAt(i)
			h.problems = append(h.problems, problem)
		}
		compiled.closed = compiled.closed || len(problems) > 0
		h.routes, h.rules = append(h.routes, route), append(h.rules, compiled)
	}
	return h
}

// compileRule names attributes as seen from the rule.
func (e *Exposed) compileRule(namespace string, from *apirule.Rule) (apirule.Route, rule, apirule.Problems) {
	to := rule{closed: from.Closed, timeout: from.Timeout, backend: from.Backend}
	spec := *from.Spec
	spec.Path = normalEscapes(spec.Path, func(c byte) bool { return c != '%' })
	route, err := apirule.NewRoute(&spec)
	if err != nil {
		return apirule.Route{}, to, apirule.Problems{{Attribute: "path", Message: err.Error()}}
	}
	problems := e.compileAccess(namespace, &spec, &to)
	if spec.Request != nil {
		problems = append(problems, to.compileRequest(spec.Request)...)
	}
	return route, to, problems
}

// compileAccess finds one way in. A rule without any is closed.
func (e *Exposed) compileAccess(namespace string, spec *v2.Rule, to *rule) apirule.Problems {
	switch {
	case spec.JWT != nil:
		return e.compileTokens(namespace, "jwt.", spec.JWT, to)
	case spec.ExtAuth != nil:
		var problems apirule.Problems
		for i, name := range spec.ExtAuth.Authorizers {
			known := e.authorizers[name]
			if known == nil {
				problems = append(problems, apirule.Problem{
					Attribute: fmt.Sprintf("extAuth.authorizers[%d]", i), Message: "This gateway has no such authorizer",
				})
			}
			to.authorizers = append(to.authorizers, known)
		}
		if len(to.authorizers) == 0 {
			problems = append(problems, apirule.Problem{Attribute: "extAuth.authorizers", Message: "There is none"})
		}
		if spec.ExtAuth.Restrictions != nil {
			problems = append(problems, e.compileTokens(namespace, "extAuth.restrictions.", spec.ExtAuth.Restrictions, to)...)
		}
		return problems
	case spec.NoAuth != nil && *spec.NoAuth:
		return nil
	default:
		return apirule.Problems{{Attribute: "noAuth", Message: "One of noAuth, jwt and extAuth must be set"}}
	}
}

func (e *Exposed) compileTokens(namespace, attribute string, spec *v2.JWT, to *rule) apirule.Problems {
	wanted := tokenRule(spec)
	validator, err := jwt.New(wanted, jwt.Options{Keys: e.deps.Keys, Namespace: namespace, Now: e.deps.Now})
	if err != nil {
		field, message, _ := strings.Cut(strings.TrimPrefix(err.Error(), "jwt."), ": ")
		return apirule.Problems{{Attribute: attribute + field, Message: message}}
	}
	to.tokens = validator
	for i := range wanted.Authentications {
		to.keyURIs = append(to.keyURIs, wanted.Authentications[i].JWKSURI)
	}
	return nil
}

func tokenRule(spec *v2.JWT) jwt.Rule {
	var wanted jwt.Rule
	for _, each := range spec.Authentications {
		if each == nil {
			continue
		}
		authentication := jwt.Authentication{Issuer: each.Issuer, JWKSURI: each.JWKSURI, FromParams: each.FromParams}
		for _, from := range each.FromHeaders {
			authentication.FromHeaders = append(authentication.FromHeaders, jwt.FromHeader{Name: from.Name, Prefix: from.Prefix})
		}
		wanted.Authentications = append(wanted.Authentications, authentication)
	}
	for _, each := range spec.Authorizations {
		if each == nil {
			each = &v2.JWTAuthorization{RequiredScopes: []string{""}} // which the validator refuses: it must not allow everything
		}
		wanted.Authorizations = append(wanted.Authorizations, jwt.Authorization{RequiredScopes: each.RequiredScopes, Audiences: each.Audiences})
	}
	return wanted
}
