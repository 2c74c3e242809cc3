package apirules

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/gateway/jwt"
	"github.com/rouse-run/rouse/internal/apirule"
)

// rule is a compiled rule of an APIRule. It is immutable.
type rule struct {
	closed  bool
	timeout time.Duration
	backend apirule.Backend

	authorizers []*authorizer  // all of which have to allow a request
	tokens      *jwt.Validator // nil: no token is required
	keyURIs     []string       // of the validator

	headers []header // replace the caller's
	host    string   // replaces the caller's; empty: it is kept
}

type header struct{ name, value string }

// compile compiles an Exposure. A rule that cannot be compiled is closed; the others are not affected.
func (s *Server) compile(x *apirule.Exposure, fingerprint string) *host {
	h := &host{apiRule: x.APIRule, id: x.APIRule.String(), fingerprint: fingerprint, name: x.Host, asks: x.AsksCertificates}
	h.cors, h.problems = compileCORS(x.CORS)
	for i := range x.Rules {
		route, compiled, problems := s.compileRule(x.APIRule.Namespace, &x.Rules[i])
		for _, problem := range problems {
			problem.Attribute, problem.Closes = fmt.Sprintf(".spec.rules[%d].%s", i, problem.Attribute), apirule.RuleAt(i)
			h.problems = append(h.problems, problem)
		}
		compiled.closed = compiled.closed || len(problems) > 0
		h.routes, h.rules = append(h.routes, route), append(h.rules, compiled)
	}
	return h
}

// compileRule reports attributes relative to the rule.
func (s *Server) compileRule(namespace string, from *apirule.Rule) (apirule.Route, rule, apirule.Problems) {
	to := rule{closed: from.Closed, timeout: from.Timeout, backend: from.Backend}
	spec := *from.Spec
	spec.Path = normalEscapes(spec.Path, func(c byte) bool { return c != '%' })
	route, err := apirule.NewRoute(&spec)
	if err != nil {
		return apirule.Route{}, to, apirule.Problems{{Attribute: "path", Message: err.Error()}}
	}
	problems := s.compileAccess(namespace, &spec, &to)
	if spec.Request != nil {
		problems = append(problems, to.compileRequest(spec.Request)...)
	}
	return route, to, problems
}

// compileAccess compiles the access strategy. A rule without one is closed.
func (s *Server) compileAccess(namespace string, spec *v2.Rule, to *rule) apirule.Problems {
	switch {
	case spec.JWT != nil:
		return s.compileTokens(namespace, "jwt.", spec.JWT, to)
	case spec.ExtAuth != nil:
		var problems apirule.Problems
		for i, name := range spec.ExtAuth.Authorizers {
			known := s.authorizers[name]
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
			problems = append(problems, s.compileTokens(namespace, "extAuth.restrictions.", spec.ExtAuth.Restrictions, to)...)
		}
		return problems
	case spec.NoAuth != nil && *spec.NoAuth:
		return nil
	default:
		return apirule.Problems{{Attribute: "noAuth", Message: "One of noAuth, jwt and extAuth must be set"}}
	}
}

func (s *Server) compileTokens(namespace, attribute string, spec *v2.JWT, to *rule) apirule.Problems {
	wanted := tokenRule(spec)
	validator, err := jwt.New(wanted, jwt.Options{Keys: s.deps.Keys, Namespace: namespace, Now: s.deps.Now})
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
			each = &v2.JWTAuthorization{RequiredScopes: []string{""}} // the validator refuses it, so that it does not allow everything
		}
		wanted.Authorizations = append(wanted.Authorizations, jwt.Authorization{RequiredScopes: each.RequiredScopes, Audiences: each.Audiences})
	}
	return wanted
}

// maxSetBytes bounds the headers that a rule sets, cookies included.
const maxSetBytes = 16 << 10

// fixed are the headers that belong to a connection, to the framing of a message, or to Rouse.
var fixed = []string{
	"Connection", "Content-Length", "Expect", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

func isFixed(name string) bool {
	return slices.Contains(fixed, name) || strings.HasPrefix(name, forward.OwnPrefix)
}

// compileRequest compiles the headers that a rule sets in requests.
func (to *rule) compileRequest(spec *v2.Request) apirule.Problems {
	var problems apirule.Problems
	note := func(attribute, message string) {
		problems = append(problems, apirule.Problem{Attribute: attribute, Message: message})
	}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(spec.Headers)) {
		value, canonical := spec.Headers[name], http.CanonicalHeaderKey(name)
		size += len(name) + len(value)
		switch {
		case !isToken(name) || !isHeaderValue(value):
			note("request.headers", fmt.Sprintf("%.64q has characters that no header may have", name))
		case isFixed(canonical):
			note("request.headers", fmt.Sprintf("%.64q cannot be set: the gateway does", name))
		case canonical == "Host" && !isAuthority(value):
			note("request.headers", fmt.Sprintf("%.64q is no host", value))
		case canonical == "Host":
			to.host = value
		default:
			to.headers = append(to.headers, header{canonical, value})
		}
	}
	if cookies := cookieHeader(spec.Cookies); cookies != "" {
		size += len(cookies)
		if !isHeaderValue(cookies) {
			note("request.cookies", "a cookie has characters that no header may have")
		}
		to.headers = append(to.headers, header{"Cookie", cookies})
	}
	if size > maxSetBytes {
		note("request", fmt.Sprintf("the headers and cookies are larger than %d bytes", maxSetBytes))
	}
	return problems
}

// cookieHeader returns the cookies sorted by name.
func cookieHeader(cookies map[string]string) string {
	pairs := make([]string, 0, len(cookies))
	for _, name := range slices.Sorted(maps.Keys(cookies)) {
		pairs = append(pairs, name+"="+cookies[name])
	}
	return strings.Join(pairs, "; ")
}

// isToken reports whether name is a valid header name (RFC 9110, 5.6.2).
func isToken(name string) bool {
	for i := range len(name) {
		if !isUnreserved(name[i]) && strings.IndexByte("!#$%&'*+^`|", name[i]) < 0 {
			return false
		}
	}
	return name != ""
}

// isHeaderValue reports whether a value has no control characters.
func isHeaderValue(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// isAuthority reports whether a value is a host with an optional port.
func isAuthority(value string) bool {
	for i := range len(value) {
		if !isUnreserved(value[i]) && strings.IndexByte(":[]", value[i]) < 0 {
			return false
		}
	}
	return value != "" && len(value) <= maxHost
}

// maxListed bounds the header names in a list of an authorizer.
const maxListed = 64

// headerList is a list of header names and patterns.
type headerList struct {
	exact              map[string]bool // in canonical form
	prefixes, suffixes []string        // in lower case
}

func newHeaderList(names []string) (headerList, error) {
	list := headerList{exact: map[string]bool{}}
	if len(names) > maxListed {
		return list, fmt.Errorf("has %d names, at most %d are supported", len(names), maxListed)
	}
	for _, name := range names {
		prefix, isPrefix := strings.CutSuffix(name, "*")
		suffix, isSuffix := strings.CutPrefix(name, "*")
		switch {
		case isPrefix && isToken(prefix) && !strings.Contains(prefix, "*"):
			list.prefixes = append(list.prefixes, strings.ToLower(prefix))
		case isSuffix && isToken(suffix) && !strings.Contains(suffix, "*"):
			list.suffixes = append(list.suffixes, strings.ToLower(suffix))
		case isToken(name) && !strings.Contains(name, "*"):
			list.exact[http.CanonicalHeaderKey(name)] = true
		default:
			return list, fmt.Errorf("%q is not a header name, nor the beginning or the end of one with an asterisk", name)
		}
	}
	return list, nil
}

func (l headerList) has(name string) bool {
	if l.exact[name] {
		return true
	}
	lower := strings.ToLower(name)
	for _, prefix := range l.prefixes {
		if strings.HasPrefix(lower, prefix) {
			return true
		}
	}
	for _, suffix := range l.suffixes {
		if strings.HasSuffix(lower, suffix) {
			return true
		}
	}
	return false
}
