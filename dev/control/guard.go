package control

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

const scheme = "Bearer "

var (
	errHost  = errors.New("this API answers on this machine's loopback address alone")
	errToken = errors.New("the API needs the header Authorization: Bearer <token>; the token is in instance.json of the state folder")
)

// loopback tells whether the request names a loopback address as its host. A page whose name resolves to this machine
// sends its own name.
func loopback(r *http.Request) bool {
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.IsLoopback()
}

// authorized compares hashes, because the comparison tells lengths apart.
func authorized(r *http.Request, token string) bool {
	given := r.Header.Get("Authorization")
	if token == "" || len(given) < len(scheme) || !strings.EqualFold(given[:len(scheme)], scheme) {
		return false
	}
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(strings.TrimSpace(given[len(scheme):])))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}
