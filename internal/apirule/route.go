package apirule

import (
	"fmt"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

// Methods is a set of methods.
type Methods uint16

// methodNames are those of the CRD. The place of one is its bit in a set.
var methodNames = [...]v2.Method{"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"}

// MethodsOf is the set of the methods. Those that the CRD does not know are not in it.
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

// Route is a rule as far as it decides which requests are its own.
type Route struct {
	Path    Pattern
	Methods Methods
}

// NewRoute is that of a rule whose path is valid.
func NewRoute(rule *v2.Rule) (Route, error) {
	pattern, err := ParsePattern(rule.Path)
	if err != nil {
		return Route{}, fmt.Errorf("path %s: %w", rule.Path, err)
	}
	return Route{Path: pattern, Methods: MethodsOf(rule.Methods...)}, nil
}

// Answer says who answers a request.
type Answer int

// The answers.
const (
	// NotFound means that no rule has the path and the method: 404.
	NotFound Answer = iota
	// Found means that a rule answers.
	Found
	// Excluded means that a rule has the path and the method, but an earlier one has the path too, not this method, and shares
	// another method with it: 403. A rule does not open what an earlier one has closed.
	Excluded
)

// Find returns the first rule that has the path, escaped and without its query, and the method of a request.
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

// excludesNothing is true of the paths that stand for the whole host.
func (r Route) excludesNothing() bool {
	return r.Path.text == "/" || r.Path.any && len(r.Path.head)+len(r.Path.tail) == 0
}
