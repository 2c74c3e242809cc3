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
	// maxOrigin is how long an origin may be. A longer one is none that is allowed.
	maxOrigin = 512
	// maxPattern is how long a regular expression may be, and maxSize how large all of a policy are together: each of a request's
	// characters costs as much at most.
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

// removeCORS takes away what a backend has to say of origins: the APIRule says it.
func removeCORS(header http.Header) {
	for _, name := range []string{
		headerAllowOrigin, headerAllowCredentials, headerExposeHeaders, headerAllowMethods, headerAllowHeaders, headerMaxAge,
	} {
		delete(header, name)
	}
}

// cors is the policy of a host.
type cors struct {
	exact, prefixes []string
	patterns        []*regexp.Regexp
	everyone        bool

	methods, headers, exposed, maxAge string
	credentials                       bool
}

// compileCORS returns nil for a policy without effect. What is wrong in an origin allows no origin.
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

// compilePattern compiles nothing that is larger than what is left.
func compilePattern(text string, left int) (*regexp.Regexp, int, error) {
	if len(text) > maxPattern {
		return nil, 0, fmt.Errorf("the regular expression is longer than %d characters: write several", maxPattern)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, 0, fmt.Errorf("it is no regular expression of RE2: %w", err)
	}
	size := sizeOf(parsed)
	if size > left {
		return nil, 0, fmt.Errorf("the regular expressions of the policy are too large: %d steps in all, write fewer repetitions", maxSize)
	}
	pattern, err := regexp.Compile(`\A(?:` + text + `)\z`)
	if err != nil {
		return nil, 0, fmt.Errorf("it is no regular expression of RE2: %w", err)
	}
	return pattern, size, nil
}

// sizeOf estimates how large the program of a regular expression is, without compiling it.
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

// origin is one that may read an answer.
type origin struct {
	*cors

	name  string
	asked bool // it is a preflight that is answered
}

// allows returns the origin of a request that the policy allows, or nil.
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

// isPreflight is true of a question by a browser, before it sends what a page wants to send to another origin.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != ""
}

// mark tells the browser that the origin may read the answer.
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
