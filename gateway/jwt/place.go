package jwt

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const (
	authorization = "Authorization"
	bearerScheme  = "Bearer"
	accessToken   = "access_token"
)

// place is where a token may be: in a header after the prefix, or else in a query parameter.
type place struct {
	header, prefix  string
	param           string
	authentications []int // whose tokens may be here, as indexes
}

func (p place) same(other place) bool {
	if p.header == authorization && other.header == authorization {
		return strings.EqualFold(p.prefix, other.prefix)
	}
	return p.header == other.header && p.prefix == other.prefix && p.param == other.param
}

// cut returns the token in a header. A scheme has no case, and ends at a space or a tab: backends read it so. In other headers the
// prefix is literal.
func (p *place) cut(value string) (raw string, there bool) {
	if len(value) < len(p.prefix) {
		return "", false
	}
	prefix, rest := value[:len(p.prefix)], value[len(p.prefix):]
	there = prefix == p.prefix || p.header == authorization && strings.EqualFold(strings.ReplaceAll(prefix, "\t", " "), p.prefix)
	return strings.TrimFunc(rest, isBlank), there
}

func isBlank(c rune) bool { return c == ' ' || c == '\t' }

// shown is what a request shows at the places of a rule.
type shown struct {
	raw string
	at  int // the index of its place
	// count is how many tokens there are. With several none of them counts, as the gateway and a backend could read different ones.
	count int
	// others says that there is more that a backend could take for a token, and that cannot be taken away.
	others bool
}

func (s *shown) note(raw string, at int) {
	s.raw, s.at, s.count = raw, at, s.count+1
}

// find is false for a query that has a place for tokens and cannot be read in one way.
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

// eachParameter reports whether all have one meaning: semicolons separate them for some, and not for others.
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

// alike reports whether some server takes a parameter for another one: names have no case, spaces before them are none, dots, spaces
// and brackets are underscores, and what follows a bracket or NUL does not belong to them.
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

// compile makes of the places what requests are compared with.
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

// unchecked lists the headers in which a backend could find a token that is not the one that was checked.
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

// isBearer is true of what any server takes for a bearer token (RFC 6750).
func isBearer(value string) bool {
	return len(value) > len(bearerScheme) && strings.EqualFold(value[:len(bearerScheme)], bearerScheme)
}

// Reads reports whether a header is one in which tokens are, or one that some servers take for it.
func (v *Validator) Reads(name string) bool {
	return slices.Contains(v.headers, name) || slices.Contains(v.headers, dashed(name))
}

// Shadows reports whether some servers take a header for one in which tokens are, though it is another: underscores are dashes there.
func (v *Validator) Shadows(name string) bool {
	return !slices.ContainsFunc(v.places, func(p place) bool { return p.header == name }) && slices.Contains(v.headers, dashed(name))
}

func dashed(name string) string { return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")) }
