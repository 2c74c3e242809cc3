package apirules

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
	"github.com/rouse-run/rouse/gateway/forward"
	"github.com/rouse-run/rouse/internal/apirule"
)

// maxSetBytes bounds the headers that a rule sets, cookies included.
const maxSetBytes = 16 << 10

// fixed are the headers that belong to a connection, to the form of a message, or to Rouse.
var fixed = []string{
	"Connection", "Content-Length", "Expect", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

func isFixed(name string) bool {
	return slices.Contains(fixed, name) || strings.HasPrefix(name, forward.OwnPrefix)
}

// compileRequest reads what a rule sets in requests.
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

// cookieHeader has the cookies in the order of their names.
func cookieHeader(cookies map[string]string) string {
	pairs := make([]string, 0, len(cookies))
	for _, name := range slices.Sorted(maps.Keys(cookies)) {
		pairs = append(pairs, name+"="+cookies[name])
	}
	return strings.Join(pairs, "; ")
}

// isToken is true of the names of headers (RFC 9110, 5.6.2).
func isToken(name string) bool {
	for i := range len(name) {
		if !isUnreserved(name[i]) && strings.IndexByte("!#$%&'*+^`|", name[i]) < 0 {
			return false
		}
	}
	return name != ""
}

// isHeaderValue is true of what has no control characters.
func isHeaderValue(value string) bool {
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// isAuthority is true of a host, perhaps with a port.
func isAuthority(value string) bool {
	for i := range len(value) {
		if !isUnreserved(value[i]) && strings.IndexByte(":[]", value[i]) < 0 {
			return false
		}
	}
	return value != "" && len(value) <= maxHost
}
