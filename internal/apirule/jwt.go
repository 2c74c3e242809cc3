package apirule

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

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

// validateValues accepts a list that is not there.
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
	var headers, params bool // of those before
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

// notURI is why a text is no URI. It does not repeat the whole text, which may have a password.
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

// validatePlaces allows one place for tokens in a rule, of one kind, besides the usual ones.
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

// differingAuthentications finds the same issuer and keys with tokens in different places.
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
