package apirules

import (
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/gateway/forward"
)

const headerForwardedHost, headerForwardedFor, headerForwardedProto = "X-Forwarded-Host", "X-Forwarded-For", "X-Forwarded-Proto"

// forwarded are the headers that httputil.ReverseProxy would drop.
var forwarded = []string{"Forwarded", headerForwardedFor, headerForwardedHost, headerForwardedProto}

// prepare makes of a caller's request the one that is judged and forwarded. The caller's stays as it is.
func (h *host) prepare(r *http.Request, path string, to *rule) *http.Request {
	out := r // a copy already
	out.Header = r.Header.Clone()
	out.URL = withPath(r.URL, path)
	if proto := out.Header.Get(headerForwardedProto); proto == "http" || proto == "https" {
		out.URL.Scheme = proto
	}
	removeHops(out.Header)
	forward.RemoveOwn(out.Header)
	removeJudged(out.Trailer, to)
	removeAlike(out.Header, to.owns)
	name := h.name
	if strings.HasPrefix(name, wildcard) {
		name = hostOf(r.Host)
	}
	out.Header[headerForwardedHost] = []string{name}
	return out
}

// removeHops takes away the headers that a caller says are not for the backend. It has to happen before any is set: what the
// gateway sets is no caller's to remove, nor is what the entrance or a trusted proxy has said of the way of a request. WebSockets are the one upgrade: in another protocol further requests could follow, which
// no rule sees.
func removeHops(header http.Header) {
	upgrade := false
	for _, value := range header["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			name = textproto.TrimString(name)
			if strings.EqualFold(name, "Upgrade") {
				upgrade = true
			} else if name != "" && !tellsTheWay(name) {
				header.Del(name)
			}
		}
	}
	delete(header, "Connection")
	if to := header["Upgrade"]; upgrade && len(to) == 1 && strings.EqualFold(to[0], "websocket") {
		header["Connection"] = []string{"Upgrade"}
	} else {
		delete(header, "Upgrade")
	}
}

func tellsTheWay(name string) bool {
	const prefix = "X-Forwarded-"
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) ||
		strings.EqualFold(name, "Forwarded") || strings.EqualFold(name, "X-Real-Ip")
}

// removeAlike takes away headers that some servers take for those that the gateway sets or judges by: they have underscores for dashes.
func removeAlike(header http.Header, owns func(name string) bool) {
	for name := range header {
		if strings.Contains(name, "_") && owns(name) {
			delete(header, name)
		}
	}
}

// judged are headers that say who asks, or what for, at any rule.
var judged = []string{"Authorization", "Cookie", "Host", "Content-Encoding", "Content-Range", "Content-Type", "Range"}

// removeJudged takes away from a trailer what the gateway judges or sets in the header. It comes after the judgement, and some servers
// add it to the header.
func removeJudged(trailer http.Header, to *rule) {
	for name := range trailer {
		if plain := http.CanonicalHeaderKey(dashes(name)); isFixed(plain) || slices.Contains(judged, plain) ||
			strings.HasPrefix(plain, "Proxy-") || tellsTheWay(plain) || to.judges(name, plain) {
			delete(trailer, name)
		}
	}
}

func (to *rule) judges(name, plain string) bool {
	return slices.ContainsFunc(to.headers, func(each header) bool { return each.name == plain }) ||
		to.tokens != nil && to.tokens.Reads(name) ||
		slices.ContainsFunc(to.authorizers, func(a *authorizer) bool { return a.include.has(plain) || a.upstream.has(plain) })
}

func dashes(name string) string { return strings.ReplaceAll(name, "_", "-") }

// addHop notes where a request came from.
func addHop(header http.Header, remote string) {
	if address, _, err := net.SplitHostPort(remote); err == nil {
		header[headerForwardedFor] = append(slices.Clone(header[headerForwardedFor]), address)
	}
}

// owns reports whether the header of a name with dashes in place of its underscores is the gateway's: it sets it, finds a token in it, or
// shows it to an authorizer.
func (to *rule) owns(name string) bool {
	plain := http.CanonicalHeaderKey(dashes(name))
	return slices.Contains(forwarded, plain) ||
		slices.ContainsFunc(to.headers, func(each header) bool { return each.name == plain }) ||
		to.tokens != nil && to.tokens.Shadows(name) ||
		slices.ContainsFunc(to.authorizers, func(a *authorizer) bool { return a.include.has(plain) && !a.include.has(name) })
}

// rewrite sets what the rule says.
func (to *rule) rewrite(out *http.Request) {
	for _, each := range to.headers {
		out.Header[each.name] = []string{each.value}
	}
	if to.host != "" {
		out.Host = to.host
	}
}
