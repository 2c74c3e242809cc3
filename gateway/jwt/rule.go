package jwt

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const (
	// maxAuthentications bounds what one token can cost.
	maxAuthentications = 32
	maxURI             = 2048
)

var errURI = errors.New("no URI that keys can be fetched from: write http:// or https://, a host and a path, without user and password")

// Rule is the jwt object of a rule: which tokens are valid, and which of the valid ones are allowed.
type Rule struct {
	// Authentications are alternatives: any one may accept a token.
	Authentications []Authentication
	// Authorizations are alternatives too. If empty, every valid token is allowed.
	Authorizations []Authorization
}

// Authentication is an issuer and where its tokens may be: in the header Authorization after "Bearer " and in the query
// parameter access_token, or else only in the places listed here.
type Authentication struct {
	Issuer      string
	JWKSURI     string
	FromHeaders []FromHeader
	FromParams  []string
}

// FromHeader is a header with a token after the prefix, which is compared literally. In Authorization the prefix is a
// scheme, without case.
type FromHeader struct {
	Name, Prefix string
}

// Authorization matches tokens with all of its audiences, and all of its scopes in one claim.
type Authorization struct {
	RequiredScopes []string
	Audiences      []string
}

// check returns what a Validator cannot serve. The API has further rules.
func (r *Rule) check() error {
	if n := len(r.Authentications); n == 0 || n > maxAuthentications {
		return fmt.Errorf("jwt.authentications: has %d entries: write 1 to %d, each with issuer and jwksUri", n, maxAuthentications)
	}
	for i, a := range r.Authentications {
		if a.Issuer == "" {
			return fmt.Errorf("jwt.authentications[%d].issuer: is empty: write what tokens have as iss", i)
		}
		if err := checkURI(a.JWKSURI); err != nil {
			return fmt.Errorf("jwt.authentications[%d].jwksUri: is %w", i, err)
		}
		if slices.ContainsFunc(a.FromHeaders, func(from FromHeader) bool { return from.Name == "" }) {
			return fmt.Errorf("jwt.authentications[%d].fromHeaders: a name is empty: write the header's", i)
		}
		if slices.Contains(a.FromParams, "") {
			return fmt.Errorf("jwt.authentications[%d].fromParams: a name is empty: write the query parameter's", i)
		}
	}
	for i, a := range r.Authorizations {
		if slices.Contains(a.RequiredScopes, "") || slices.Contains(a.Audiences, "") {
			return fmt.Errorf("jwt.authorizations[%d]: a scope or an audience is empty: write it, or leave the entry out", i)
		}
	}
	return nil
}

// checkURI returns one error for all URIs, because a URI may contain a password.
func checkURI(uri string) error {
	at, err := url.Parse(uri)
	if err != nil || len(uri) > maxURI || at.Scheme != "http" && at.Scheme != "https" || at.Hostname() == "" || at.User != nil {
		return errURI
	}
	return nil
}

// places returns where tokens may be, each place once, with the authentications that allow it.
func (r *Rule) places() []place {
	var places []place
	add := func(p place, authentication int) {
		at := slices.IndexFunc(places, p.same)
		if at < 0 {
			at = len(places)
			places = append(places, p)
		}
		places[at].authentications = append(places[at].authentications, authentication)
	}
	for i, a := range r.Authentications {
		for _, from := range a.FromHeaders {
			add(place{header: http.CanonicalHeaderKey(from.Name), prefix: from.Prefix}, i)
		}
		for _, name := range a.FromParams {
			add(place{param: name}, i)
		}
		if len(a.FromHeaders)+len(a.FromParams) == 0 {
			add(place{header: authorization, prefix: bearerScheme + " "}, i)
			add(place{param: accessToken}, i)
		}
	}
	return places
}

// admits reports whether a valid token is allowed. A token without a subject is not.
func (r *Rule) admits(c *claims) bool {
	if c.subject == "" {
		return false
	}
	return len(r.Authorizations) == 0 ||
		slices.ContainsFunc(r.Authorizations, func(a Authorization) bool { return a.admits(c) })
}

// admits requires the scopes in one claim: parts in two claims may mean different things.
func (a Authorization) admits(c *claims) bool {
	return hasAll(c.audiences, a.Audiences) &&
		slices.ContainsFunc(c.scopes[:], func(scopes []string) bool { return hasAll(scopes, a.RequiredScopes) })
}

func hasAll(values, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(each string) bool { return !slices.Contains(values, each) })
}

const (
	authorization = "Authorization"
	bearerScheme  = "Bearer"
	accessToken   = "access_token"
)

// place is where a token may be: in a header after the prefix, or in a query parameter.
type place struct {
	header, prefix  string
	param           string
	authentications []int // indexes of those that allow this place
}

func (p place) same(other place) bool {
	if p.header == authorization && other.header == authorization {
		return strings.EqualFold(p.prefix, other.prefix)
	}
	return p.header == other.header && p.prefix == other.prefix && p.param == other.param
}

// cut returns the token in a header. A scheme has no case, and ends at a space or a tab, as backends parse it. In other
// headers the prefix is literal.
func (p *place) cut(value string) (raw string, there bool) {
	if len(value) < len(p.prefix) {
		return "", false
	}
	prefix, rest := value[:len(p.prefix)], value[len(p.prefix):]
	there = prefix == p.prefix || p.header == authorization && strings.EqualFold(strings.ReplaceAll(prefix, "\t", " "), p.prefix)
	return strings.TrimFunc(rest, isBlank), there
}

func isBlank(c rune) bool { return c == ' ' || c == '\t' }

// shown is what a request has at the places of a rule.
type shown struct {
	raw string
	at  int // index of the token's place
	// count is the number of tokens. Several are an error, because the gateway and a backend could read different ones.
	count int
	// others reports that there is more that a backend could take for a token, and that cannot be removed.
	others bool
}

func (s *shown) note(raw string, at int) {
	s.raw, s.at, s.count = raw, at, s.count+1
}

// find returns false for a query with places for tokens that cannot be parsed unambiguously.
func (v *Validator) find(request *http.Request) (s shown, ok bool) {
	for i := range v.places {
		p := &v.places[i]
		if p.header == "" {
			continue
		}
		values := request.Header[p.header]
		if len(values) > 1 {
			s.count, s.others = s.count+1, true
		} else if len(values) == 1 {
			if raw, there := p.cut(values[0]); there {
				s.note(raw, i)
			}
		}
	}
	if request.URL.RawQuery == "" {
		return s, true
	}
	wellFormed := eachParameter(request.URL.RawQuery, func(name, value string) {
		at := slices.IndexFunc(v.places, func(p place) bool { return p.param != "" && p.param == name })
		if at >= 0 {
			s.note(value, at)
		} else if slices.ContainsFunc(v.params, func(param string) bool { return alike(name, param) }) {
			s.others = true
		}
	})
	return s, wellFormed || !v.readsQuery
}

// eachParameter reports whether all parameters are unambiguous: semicolons are separators for some servers only.
func eachParameter(query string, visit func(name, value string)) (wellFormed bool) {
	wellFormed = true
	for query != "" {
		pair := query
		if end := strings.IndexAny(query, "&;"); end < 0 {
			query = ""
		} else {
			wellFormed = wellFormed && query[end] == '&'
			pair, query = query[:end], query[end+1:]
		}
		name, value, _ := strings.Cut(pair, "=")
		name, known := unescape(name)
		value, whole := unescape(value)
		wellFormed = wellFormed && known && whole
		if pair != "" {
			visit(name, value)
		}
	}
	return wellFormed
}

func unescape(text string) (string, bool) {
	plain, err := url.QueryUnescape(text)
	if err != nil {
		return text, false
	}
	return plain, true
}

// alike reports whether some server confuses a parameter with another one: names have no case, leading spaces are
// dropped, dots, spaces and brackets are underscores, and what follows a bracket or NUL is dropped.
func alike(name, param string) bool {
	name = strings.TrimLeft(name, " ")
	if len(name) < len(param) || len(name) > len(param) && name[len(param)] != '[' && name[len(param)] != 0 {
		return false
	}
	for i := range len(param) {
		if plainest(name[i]) != plainest(param[i]) {
			return false
		}
	}
	return true
}

func plainest(c byte) byte {
	switch {
	case c == '.' || c == ' ' || c == '[':
		return '_'
	case 'A' <= c && c <= 'Z':
		return c | 0x20
	}
	return c
}

// compile precomputes what requests are compared with.
func (v *Validator) compile() {
	v.params = []string{accessToken}
	for _, p := range v.places {
		if p.param != "" {
			v.readsQuery = true
			v.params = append(v.params, p.param)
			continue
		}
		for _, name := range []string{p.header, dashed(p.header)} {
			if !slices.Contains(v.headers, name) {
				v.headers = append(v.headers, name)
			}
		}
	}
}

// unchecked returns the headers in which a backend could find a token other than the checked one.
func (v *Validator) unchecked(header http.Header, checked string) []string {
	var names []string
	for _, name := range v.headers {
		if _, there := header[name]; there && name != checked {
			names = append(names, name)
		}
	}
	if checked != authorization && !slices.Contains(names, authorization) && slices.ContainsFunc(header[authorization], isBearer) {
		names = append(names, authorization)
	}
	return names
}

// isBearer reports whether any server takes a value for a bearer token (RFC 6750).
func isBearer(value string) bool {
	return len(value) > len(bearerScheme) && strings.EqualFold(value[:len(bearerScheme)], bearerScheme)
}

// Reads reports whether a header may contain a token, or is confused with one that may by some servers.
func (v *Validator) Reads(name string) bool {
	return slices.Contains(v.headers, name) || slices.Contains(v.headers, dashed(name))
}

// Shadows reports whether some servers confuse a header with one that may contain a token: underscores are dashes
// there.
func (v *Validator) Shadows(name string) bool {
	return !slices.ContainsFunc(v.places, func(p place) bool { return p.header == name }) && slices.Contains(v.headers, dashed(name))
}

func dashed(name string) string { return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")) }
