package daemon

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

const bearer = "Bearer "

// HasBearer reports whether a request has the token in its header Authorization. An empty token denies access.
func HasBearer(r *http.Request, token string) bool {
	given := r.Header.Get("Authorization")
	if token == "" || len(given) < len(bearer) || !strings.EqualFold(given[:len(bearer)], bearer) {
		return false
	}
	// Hashes, because the comparison of texts leaks their lengths.
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(strings.TrimSpace(given[len(bearer):])))
	return subtle.ConstantTimeCompare(want[:], got[:]) == 1
}
