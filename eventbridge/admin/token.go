package admin

import (
	"errors"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/rouse-run/rouse/internal/daemon"
)

const maxToken = 4 << 10

var (
	errNoToken      = errors.New("the API has no token: put one into the file of --admin-token-file")
	errUnauthorized = errors.New("the API needs the header Authorization: Bearer <token>")
)

// authorize compares the request's token with that of the file. The file is read
// each time, so that a new token counts at once.
func authorize(r *http.Request, file string) error {
	token, err := readToken(file)
	if err != nil || token == "" {
		return errNoToken // the answer shows neither the file's name nor the reason
	}
	if !daemon.HasBearer(r, token) {
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
