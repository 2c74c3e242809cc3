package apirules

import (
	"net/url"
	"strings"
)

const upperHex = "0123456789ABCDEF"

// normalPath is the path of a request as rules see it and backends get it: escaped, in the one form of all that mean the same (RFC
// 3986, 6.2.2), without dot segments. It is false for what is no path, such as that of OPTIONS *.
func normalPath(u *url.URL) (string, bool) {
	raw := u.RawPath // as it came, where it differs from the usual form
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

// normalEscapes unescapes the characters that need no escape anywhere, writes other escapes in upper case, and escapes each byte
// that is not to be kept.
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

// removeDots resolves the segments . and .. without going above the root. Empty segments stay (RFC 3986, 5.2.4).
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

// withPath is the URL that is forwarded, whose scheme and host the way to the backend decides.
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

// isPathByte is true of what a path has unescaped: slashes, and pchar of RFC 3986.
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
