package entrance

import (
	"net/http"
	"strings"
)

const forwardedProto = "X-Forwarded-Proto"

// cleanHeaders takes away what a client must not say. Servers that make variables of headers take _ for -, so that counts alike.
func cleanHeaders(header http.Header, trusted, secure bool) {
	for name := range header {
		if !allowed(name, trusted) {
			delete(header, name)
		}
	}
	if proto := header[forwardedProto]; len(proto) != 1 || (proto[0] != "http" && proto[0] != "https") {
		header[forwardedProto] = []string{schemeOf(secure)}
	}
	if upgrade, ok := header["Upgrade"]; ok && (len(upgrade) != 1 || !strings.EqualFold(upgrade[0], "websocket")) {
		delete(header, "Upgrade")
		delete(header, "Http2-Settings")
	}
}

func schemeOf(secure bool) string {
	if secure {
		return "https"
	}
	return "http"
}

func allowed(name string, trusted bool) bool {
	plain := name
	if strings.Contains(name, "_") {
		plain = strings.ReplaceAll(name, "_", "-")
		trusted = false // proxies write their names as everybody does
	}
	switch {
	case hasPrefixFold(plain, "Rouse-"):
		return false
	case hasPrefixFold(plain, "X-Forwarded-"), strings.EqualFold(plain, "Forwarded"), strings.EqualFold(plain, "X-Real-IP"):
		return trusted
	}
	return true
}

func hasPrefixFold(text, prefix string) bool {
	return len(text) >= len(prefix) && strings.EqualFold(text[:len(prefix)], prefix)
}
