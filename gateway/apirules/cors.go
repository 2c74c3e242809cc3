package apirules

import (
	"fmt"
	"net/http"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/internal/apirule"
)

const (
	// maxOrigin bounds the length of an origin. A longer one is not allowed.
	maxOrigin = 512
	// maxPattern bounds the length of a regular expression, and maxSize the total size of a policy's programs: matching
	// costs at most that much per character.
	maxPattern = 512
	maxSize    = 4000

	anyOrigin = "*"

	headerAllowOrigin      = "Access-Control-Allow-Origin"
	headerAllowCredentials = "Access-Control-Allow-Credentials"
	headerExposeHeaders    = "Access-Control-Expose-Headers"
	headerAllowMethods     = "Access-Control-Allow-Methods"
	headerAllowHeaders     = "Access-Control-Allow-Headers"
	headerMaxAge           = "Access-Control-Max-Age"
)

// removeCORS removes the backend's CORS headers: the APIRule's apply.
func removeCORS(header http.Header) {
	for _, name := range []string{
		headerAllowOrigin, headerAllowCredentials, headerExposeHeaders, headerAllowMethods, headerAllowHeaders, headerMaxAge,
	} {
		delete(header, name)
	}
}

// cors is the CORS policy of a host.
type cors struct {
	exact, prefixes []string
	patterns        []*regexp.Regexp
	everyone        bool

	methods, headers, exposed, maxAge string
	credentials                       bool
}

// compileCORS returns nil for a policy without effect. An invalid origin allows nothing.
func compileCORS(policy *v2.CORSPolicy) (*cors, apirule.Problems) {
	if policy == nil || len(policy.AllowOrigins) == 0 {
		return nil, nil
	}
	c := &cors{
		methods: strings.Join(policy.AllowMethods, ","), headers: strings.Join(policy.AllowHeaders, ","),
		exposed: strings.Join(policy.ExposeHeaders, ","), credentials: policy.AllowCredentials != nil && *policy.AllowCredentials,
	}
	if policy.MaxAge != nil {
		c.maxAge = strconv.FormatInt(*policy.MaxAge, 10)
	}
	var problems apirule.Problems
	left := maxSize
	for i, match := range policy.AllowOrigins {
		for kind, value := range match {
			if err := c.allow(kind, value, &left); err != nil {
				problems = append(problems, apirule.Problem{
					Attribute: fmt.Sprintf(".spec.corsPolicy.allowOrigins[%d].%s", i, kind), Message: err.Error(),
				})
			}
		}
	}
	c.everyone = c.matches(anyOrigin)
	return c, problems
}

func (c *cors) allow(kind, value string, left *int) error {
	switch kind {
	case v2.MatchExact:
		c.exact = append(c.exact, value)
	case v2.MatchRegex:
		pattern, size, err := compilePattern(value, *left)
		if err != nil {
			return err
		}
		*left -= size
		c.patterns = append(c.patterns, pattern)
	default:
		c.prefixes = append(c.prefixes, value)
	}
	return nil
}

// compilePattern compiles an expression unless it is larger than left.
func compilePattern(text string, left int) (*regexp.Regexp, int, error) {
	if len(text) > maxPattern {
		return nil, 0, fmt.Errorf("the regular expression is longer than %d characters: write several", maxPattern)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, 0, fmt.Errorf("not a regular expression of RE2: %w", err)
	}
	size := sizeOf(parsed)
	if size > left {
		return nil, 0, fmt.Errorf("the regular expressions of the policy are too large: %d steps in all, write fewer repetitions", maxSize)
	}
	pattern, err := regexp.Compile(`\A(?:` + text + `)\z`)
	if err != nil {
		return nil, 0, fmt.Errorf("not a regular expression of RE2: %w", err)
	}
	return pattern, size, nil
}

// sizeOf estimates the program size of a regular expression without compiling it.
func sizeOf(re *syntax.Regexp) int {
	size := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		size += sizeOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		size *= max(re.Min, re.Max, 1)
	}
	return min(size, maxSize+1)
}

func (c *cors) matches(text string) bool {
	return slices.Contains(c.exact, text) ||
		slices.ContainsFunc(c.prefixes, func(prefix string) bool { return strings.HasPrefix(text, prefix) }) ||
		slices.ContainsFunc(c.patterns, func(pattern *regexp.Regexp) bool { return pattern.MatchString(text) })
}

// origin is an origin that may read a response.
type origin struct {
	*cors

	name  string
	asked bool // it is a preflight that the gateway answers
}

// allows returns the origin of a request if the policy allows it, else nil.
func (c *cors) allows(r *http.Request) *origin {
	values := r.Header["Origin"]
	if c == nil || len(values) != 1 || values[0] == "" || len(values[0]) > maxOrigin {
		return nil
	}
	if !c.everyone && !c.matches(values[0]) {
		return nil
	}
	return &origin{cors: c, name: values[0]}
}

// isPreflight reports whether a request is a CORS preflight.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// mark allows the browser to give the response to the origin.
func (o *origin) mark(header http.Header) {
	if o == nil {
		return
	}
	header.Set(headerAllowOrigin, o.name)
	if o.credentials {
		header.Set(headerAllowCredentials, "true")
	}
	if o.exposed != "" {
		header.Set(headerExposeHeaders, o.exposed)
	}
	if !o.asked {
		return
	}
	for name, value := range map[string]string{headerAllowMethods: o.methods, headerAllowHeaders: o.headers, headerMaxAge: o.maxAge} {
		if value != "" {
			header.Set(name, value)
		}
	}
}
