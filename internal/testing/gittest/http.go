package gittest

import (
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Server serves a repository over HTTP.
type Server struct {
	*httptest.Server

	repository *Repository
	requests   atomic.Int64
}

// HTTP serves the repository; with a username, only to who knows the password.
func (r *Repository) HTTP(t testing.TB, username, password string) *Server {
	t.Helper()
	return r.serve(t, username, password, httptest.NewServer)
}

// HTTPS does the same with a certificate that no client trusts; Server.Certificate has it.
func (r *Repository) HTTPS(t testing.TB, username, password string) *Server {
	t.Helper()
	return r.serve(t, username, password, httptest.NewTLSServer)
}

func (r *Repository) serve(t testing.TB, username, password string, start func(http.Handler) *httptest.Server) *Server {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "--exec-path").Output()
	require.NoError(t, err)
	backend := &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"), Root: "/",
		Env: []string{"GIT_PROJECT_ROOT=" + r.Dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null"},
	}
	s := &Server{repository: r}
	s.Server = start(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		s.requests.Add(1)
		name, word, _ := request.BasicAuth()
		if username != "" && (name != username || word != password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		backend.ServeHTTP(w, request)
	}))
	t.Cleanup(s.Close)
	return s
}

// Address is the URL of the repository.
func (s *Server) Address() string { return s.URL + "/" + s.repository.Name }

// Requests counts what came so far.
func (s *Server) Requests() int64 { return s.requests.Load() }
