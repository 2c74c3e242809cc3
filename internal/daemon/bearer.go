package daemon

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

const bearer = "Bearer "

// Bearer is the token in a request's header Authorization. ok is false without one.
func Bearer(r *http.Request) (token string, ok bool) {
	given := r.Header.Get("Authorization")
	if len(given) < len(bearer) || !strings.EqualFold(given[:len(bearer)], bearer) {
		return "", false
	}
	token = strings.TrimSpace(given[len(bearer):])
	return token, token != ""
}

// HasBearer reports whether a request has the token in its header Authorization. An empty token denies access.
func HasBearer(r *http.Request, token string) bool {
	given, ok := Bearer(r)
	if token == "" || !ok {
		return false
	}
	// Hashes, because the comparison of texts leaks their lengths.
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}
