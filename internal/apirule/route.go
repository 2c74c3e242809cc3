package apirule

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unique"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

// Methods is a set of methods.
type Methods uint16

// methodNames are the methods of the CRD. The index of a method is its bit in a set.
var methodNames = [...]v2.Method{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}

// MethodsOf returns the set of the methods. It ignores methods that the CRD does not know.
func MethodsOf(methods ...v2.Method) Methods {
	var set Methods
	for _, method := range methods {
		for bit, name := range methodNames {
			if method == name {
				set |= 1 << bit
			}
		}
	}
	return set
}

// Route is the part of a rule that determines which requests it matches.
type Route struct {
	Path    Pattern
	Methods Methods
}

// NewRoute returns the route of a rule with a valid path.
func NewRoute(rule *v2.Rule) (Route, error) {
	pattern, err := ParsePattern(rule.Path)
	if err != nil {
		return Route{}, fmt.Errorf("path %s: %w", rule.Path, err)
	}
	return Route{Path: pattern, Methods: MethodsOf(rule.Methods...)}, nil
}

// Answer is the result of matching a request to the rules.
type Answer int

// The results of Find.
const (
	// NotFound means that no rule has the path and the method: 404.
	NotFound Answer = iota
	// Found means that a rule matches.
	Found
	// Excluded means that a rule has the path and the method, but an earlier one has the path too, lacks this method,
	// and shares another method with it: 403. A rule does not open what an earlier one has closed.
	Excluded
)

// Find returns the first rule that matches the method and the escaped path, without its query, of a request.
func Find(routes []Route, method v2.Method, path string) (int, Answer) {
	asked := MethodsOf(method)
	var closed Methods
	for i, route := range routes {
		switch {
		case !route.Path.Matches(path):
		case route.Methods&asked == 0:
			if !route.excludesNothing() {
				closed |= route.Methods
			}
		case route.Methods&closed != 0:
			return i, Excluded
		default:
			return i, Found
		}
	}
	return 0, NotFound
}

// excludesNothing is true for paths that stand for the whole host.
func (r Route) excludesNothing() bool {
	return r.Path.text == "/" || r.Path.any && len(r.Path.head)+len(r.Path.tail) == 0
}

// MaxPathLength limits the length of a rule's path in bytes.
const MaxPathLength = 512

const (
	oneSegment  = "{*}"
	anySegments = "{**}"
	everything  = "/*"
)

// segment is a literal, or {*}. Segments are compared far more often than they are made, so each text is interned.
type segment = unique.Handle[string]

var (
	wild  = unique.Make(oneSegment)
	empty = unique.Make("")
)

// PatternError describes why a path is not a Pattern.
type PatternError string

// The reasons why a path is not valid.
const (
	ErrPathTooLong      PatternError = "The path is too long: at most 512 characters are allowed."
	ErrPathMalformed    PatternError = "The path must be /*, or segments that each are {*}, {**} or characters of a URL's path."
	ErrTwoAnySegments   PatternError = "Only one {**} operator is allowed in the path."
	ErrOperatorAfterAny PatternError = "The {**} operator must be the last operator in the path."
)

func (e PatternError) Error() string { return string(e) }

// wellFormed matches the paths that the CRD accepts.
var wellFormed = regexp.MustCompile(`^(/(([A-Za-z0-9._~!$&'()+,;=:@-]|%[0-9a-fA-F]{2})*|\{\*{1,2}\}))+$|^/\*$`)

// Pattern is the path of a rule. A path consists of segments, each of which follows a slash: the segments of "/a/" are
// "a" and "".
type Pattern struct {
	text string
	// head holds the segments before {**}, or all of them without it.
	head []segment
	// any is true with {**}, which matches any characters, but at least one segment, since a slash precedes it.
	any bool
	// tail holds the literals after {**}, and suffix the end of a path that matches them.
	tail   []segment
	suffix string
}

// ParsePattern parses the path of a rule.
func ParsePattern(text string) (Pattern, error) {
	switch {
	case len(text) > MaxPathLength:
		return Pattern{}, ErrPathTooLong
	case !wellFormed.MatchString(text):
		return Pattern{}, ErrPathMalformed
	case text == everything:
		return Pattern{text: text, any: true}, nil
	}
	segments := strings.Split(text[1:], "/")
	at := slices.Index(segments, anySegments)
	if at < 0 {
		return Pattern{text: text, head: parseSegments(segments)}, nil
	}
	tail, suffix := segments[at+1:], ""
	switch {
	case slices.Contains(tail, anySegments):
		return Pattern{}, ErrTwoAnySegments
	case slices.Contains(tail, oneSegment):
		return Pattern{}, ErrOperatorAfterAny
	case len(tail) > 0:
		suffix = "/" + strings.Join(tail, "/")
	}
	return Pattern{text: text, head: parseSegments(segments[:at]), any: true, tail: parseSegments(tail), suffix: suffix}, nil
}

func parseSegments(texts []string) []segment {
	segments := make([]segment, len(texts))
	for i, text := range texts {
		segments[i] = unique.Make(text)
	}
	return segments
}

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.text }

// Covers reports whether p matches every path that other matches.
func (p Pattern) Covers(other Pattern) bool {
	switch {
	case !p.any:
		return !other.any && len(p.head) == len(other.head) && cover(p.head, other.head)
	case !other.any:
		after := len(other.head) - len(p.tail)
		return after > len(p.head) && cover(p.head, other.head) && slices.Equal(other.head[after:], p.tail)
	default:
		after := len(other.tail) - len(p.tail)
		return after >= 0 && len(p.head) <= len(other.head) && cover(p.head, other.head) && slices.Equal(other.tail[after:], p.tail)
	}
}

// cover reports whether each segment covers the other segment at its index.
func cover(segments, others []segment) bool {
	for i, segment := range segments {
		if segment != others[i] && (segment != wild || others[i] == empty) {
			return false
		}
	}
	return true
}

// Matches reports whether the pattern matches the escaped path, without its query, of a request.
func (p Pattern) Matches(path string) bool {
	for _, segment := range p.head {
		rest, ok := strings.CutPrefix(path, "/")
		if !ok {
			return false
		}
		end := strings.IndexByte(rest, '/')
		if end < 0 {
			end = len(rest)
		}
		if !matches(segment, rest[:end]) {
			return false
		}
		path = rest[end:]
	}
	if !p.any {
		return path == ""
	}
	between, ends := strings.CutSuffix(path, p.suffix)
	rest, slash := strings.CutPrefix(between, "/")
	return ends && slash && fitsPath(rest, true)
}

// FitsLonger reports whether the pattern matches a path that begins with stem and goes on within its last segment, as
// /foobar does after /foo.
func (p Pattern) FitsLonger(stem string) bool {
	segments := strings.Split(strings.TrimPrefix(stem, "/"), "/")
	last := len(segments) - 1
	for i, segment := range p.head {
		if i == last {
			return segment == wild || segment.Value() != segments[i] && strings.HasPrefix(segment.Value(), segments[i])
		}
		if !matches(segment, segments[i]) {
			return false
		}
	}
	return p.any
}

func matches(s segment, text string) bool {
	if s == wild {
		return text != "" && fitsPath(text, false)
	}
	return s.Value() == text
}

// fitsPath reports whether a path may have the characters (pchar of RFC 3986). Slashes are allowed on request.
func fitsPath(text string, slashes bool) bool {
	for i := range len(text) {
		switch c := text[i]; {
		case c == '%' && (i+2 >= len(text) || !isHex(text[i+1]) || !isHex(text[i+2])):
			return false
		case c == '/' && !slashes, !isPathCharacter(c):
			return false
		}
	}
	return true
}

func isPathCharacter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~!$&'()*+,;=:@%/", c) >= 0
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
