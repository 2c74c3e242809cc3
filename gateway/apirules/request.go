package apirules

import (
	"bufio"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/gateway/forward"
)

// prepare returns the request that is authorized and forwarded. The caller's request stays unchanged.
func (h *host) prepare(r *http.Request, path string, to *rule) *http.Request {
	out := r // already a copy
	out.Header = r.Header.Clone()
	out.URL = withPath(r.URL, path)
	if proto := out.Header.Get(forward.HeaderForwardedProto); proto == "http" || proto == "https" {
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
	out.Header[forward.HeaderForwardedHost] = []string{name}
	return out
}

// removeHops removes hop-by-hop headers, which the caller lists in Connection. It runs before the gateway sets any, so
// that a caller cannot remove those, nor the forwarding headers of the entrance or of a trusted proxy. WebSocket is the
// only upgrade: another protocol could carry further requests that no rule sees.
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

// removeAlike removes headers that some servers confuse with headers that the gateway sets or evaluates: they have
// underscores for dashes.
func removeAlike(header http.Header, owns func(name string) bool) {
	for name := range header {
		if strings.Contains(name, "_") && owns(name) {
			delete(header, name)
		}
	}
}

// judged are headers about the caller or the request that any backend may evaluate.
var judged = []string{"Authorization", "Cookie", "Host", "Content-Encoding", "Content-Range", "Content-Type", "Range"}

// removeJudged removes from a trailer the names that the gateway evaluates or sets in the header. The trailer arrives
// after authorization, and some servers merge it into the header.
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

// owns reports whether the gateway controls the header of a name with dashes in place of its underscores: it sets it,
// reads a token from it, or sends it to an authorizer.
func (to *rule) owns(name string) bool {
	plain := http.CanonicalHeaderKey(dashes(name))
	return slices.Contains(forward.ForwardingHeaders, plain) ||
		slices.ContainsFunc(to.headers, func(each header) bool { return each.name == plain }) ||
		to.tokens != nil && to.tokens.Shadows(name) ||
		slices.ContainsFunc(to.authorizers, func(a *authorizer) bool { return a.include.has(plain) && !a.include.has(name) })
}

// rewrite sets the rule's headers.
func (to *rule) rewrite(out *http.Request) {
	for _, each := range to.headers {
		out.Header[each.name] = []string{each.value}
	}
	if to.host != "" {
		out.Host = to.host
	}
}

const upperHex = "0123456789ABCDEF"

// normalPath returns the path of a request for rules and backends: escaped, normalized (RFC 3986, 6.2.2), without dot
// segments. It returns false if there is no path, as in OPTIONS *.
func normalPath(u *url.URL) (string, bool) {
	raw := u.RawPath // as sent, where it differs from the default encoding
	if raw == "" {
		raw = u.EscapedPath()
	}
	if raw == "" {
		return "/", true
	}
	if raw[0] != '/' {
		return "", false
	}
	return removeDots(normalEscapes(raw, isPathByte)), true
}

// normalEscapes unescapes characters that need no escape, writes other escapes in upper case, and escapes each byte
// that keep does not allow.
func normalEscapes(text string, keep func(byte) bool) string {
	if isPlain(text, keep) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '%' && i+2 < len(text) && isHex(text[i+1]) && isHex(text[i+2]) {
			c = unhex(text[i+1])<<4 | unhex(text[i+2])
			i += 2
			if isUnreserved(c) {
				b.WriteByte(c)
				continue
			}
		} else if keep(c) {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', upperHex[c>>4], upperHex[c&15]})
	}
	return b.String()
}

func isPlain(text string, keep func(byte) bool) bool {
	for i := range len(text) {
		if !keep(text[i]) {
			return false
		}
	}
	return true
}

// removeDots resolves the segments . and .. without leaving the root. Empty segments stay (RFC 3986, 5.2.4).
func removeDots(path string) string {
	if !strings.Contains(path, "/.") {
		return path
	}
	segments := strings.Split(path[1:], "/")
	kept := segments[:0]
	for i, segment := range segments {
		switch segment {
		case "..":
			kept = kept[:max(len(kept)-1, 0)]
		case ".":
		default:
			kept = append(kept, segment)
			continue
		}
		if i == len(segments)-1 {
			kept = append(kept, "")
		}
	}
	return "/" + strings.Join(kept, "/")
}

// withPath returns the URL to forward, without scheme and host.
func withPath(in *url.URL, path string) *url.URL {
	out := &url.URL{Path: path, RawQuery: in.RawQuery, ForceQuery: in.ForceQuery}
	if plain, err := url.PathUnescape(path); err == nil {
		out.Path, out.RawPath = plain, path
	}
	return out
}

func isUnreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// isPathByte reports whether a path may contain c unescaped: slashes, and pchar of RFC 3986.
func isPathByte(c byte) bool {
	return isUnreserved(c) || strings.IndexByte("!$&'()*+,;=:@/", c) >= 0
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}

// response writes a response with the gateway's CORS headers.
type response struct {
	*forward.Writer

	cors   *origin       // the origin that may read it, or nil
	varies bool          // there is a policy, so the response depends on the origin
	add    http.Header   // from authorizers
	body   *body         // of a request that a rule accepts
	asked  time.Duration // what was left of the request's time when a backend was asked; 0: none has answered
}

// WriteHeader implements http.ResponseWriter.
func (r *response) WriteHeader(code int) {
	header := r.Header()
	last := code >= http.StatusOK || code == http.StatusSwitchingProtocols
	if last && r.Code() != 0 {
		return
	}
	if last {
		replace(header, r.add)
		r.tellServiceTime(header)
	}
	removeCORS(header)
	if last {
		r.cors.mark(header)
	}
	if last && r.varies && !slices.ContainsFunc(header["Vary"], namesOrigin) { // otherwise a cache could give one origin the response to another
		header["Vary"] = append(header["Vary"], "Origin")
	}
	r.Writer.WriteHeader(code)
}

// tellServiceTime tells how long a backend took, without the time of the upload. Like Envoy it says nothing about a response that begins
// before the request has ended, and nothing in responses of its own.
func (r *response) tellServiceTime(header http.Header) {
	delete(header, forward.HeaderServiceTime)
	if r.asked > 0 && r.body.Whole() && header[headerRefused] == nil {
		took := r.asked - r.body.left.remaining()
		header[forward.HeaderServiceTime] = []string{strconv.FormatInt(took.Milliseconds(), 10)}
	}
}

// headerRefused is set by a Function's activator in a response that is none of the Function's.
const headerRefused = forward.OwnPrefix + "Refused"

// namesOrigin reports whether a value of Vary includes the origin.
func namesOrigin(vary string) bool {
	for name := range strings.SplitSeq(vary, ",") {
		if name = strings.TrimSpace(name); name == "*" || strings.EqualFold(name, "Origin") {
			return true
		}
	}
	return false
}

// replace replaces headers of a response. Cookies are added, because each sender has its own.
func replace(header, with http.Header) {
	for name, values := range with {
		if name == "Set-Cookie" {
			values = slices.Concat(header[name], values)
		}
		header[name] = values
	}
}

// Write implements http.ResponseWriter.
func (r *response) Write(p []byte) (int, error) {
	if r.Code() == 0 {
		r.WriteHeader(http.StatusOK)
	}
	return r.Writer.Write(p)
}

// FlushError implements the interface of http.ResponseController.
func (r *response) FlushError() error {
	if r.Code() == 0 {
		r.WriteHeader(http.StatusOK)
	}
	return r.Writer.FlushError()
}

// Hijack implements http.Hijacker. Only upgraded connections are hijacked.
func (r *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, both, err := r.Writer.Hijack()
	if err == nil {
		r.body.left.unlimited()
	}
	return conn, both, err
}
