package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
)

const (
	maxToken = 4 << 10
	scheme   = "Bearer "
)

var (
	errNoToken      = errors.New("the API has no token: put one into the file of --admin-token-file")
	errUnauthorized = errors.New("the API needs the header Authorization: Bearer <token>")
)

// authorize compares the request's token with that of the file. The file is read
// each time, so that a new token counts at once.
func authorize(r *http.Request, file string) error {
	token, err := readToken(file)
	if err != nil || token == "" {
		return errNoToken // the file's name is the operator's, the reason may be anybody's
	}
	given := r.Header.Get("Authorization")
	if len(given) < len(scheme) || !strings.EqualFold(given[:len(scheme)], scheme) {
		return errUnauthorized
	}
	// Hashes, because the comparison tells lengths apart.
	want, got := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(strings.TrimSpace(given[len(scheme):])))
	if subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
		return errUnauthorized
	}
	return nil
}

func readToken(file string) (string, error) {
	in, err := os.Open(file) //nolint:gosec // the operator names it
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }()
	content, err := io.ReadAll(io.LimitReader(in, maxToken))
	return strings.TrimSpace(string(content)), err
}
