package gittest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// Repository is a bare repository on disk.
type Repository struct {
	Dir string // parent
	// Name is the name of the repository below Dir.
	Name string
}

// New makes an empty repository that serves single commits and partial clones, as the large hosts do.
func New(t testing.TB) *Repository {
	t.Helper()
	_, err := exec.LookPath("git")
	require.NoError(t, err, `git is missing: run "make packages"`)
	r := &Repository{Dir: t.TempDir(), Name: "shop.git"}
	r.git(t, "", "init", "--quiet", "--bare", "--initial-branch=main", r.path())
	r.Configure(t, "uploadpack.allowAnySHA1InWant", "true")
	r.Configure(t, "uploadpack.allowFilter", "true")
	return r
}

func (r *Repository) path() string { return filepath.Join(r.Dir, r.Name) }

// Configure sets a server option.
func (r *Repository) Configure(t testing.TB, key, value string) {
	t.Helper()
	r.git(t, r.path(), "config", key, value)
}

// Link is the prefix of a file's content that makes it a symbolic link to the rest of the content.
const Link = "link:"

// Commit replaces the files of a branch and returns the commit.
func (r *Repository) Commit(t testing.TB, branch string, files map[string]string) string {
	t.Helper()
	work := t.TempDir()
	r.git(t, work, "init", "--quiet", "--initial-branch="+branch)
	if r.has(branch) {
		r.git(t, work, "pull", "--quiet", r.path(), branch)
		r.git(t, work, "rm", "--quiet", "-r", ".")
	}
	for name, content := range files {
		file := filepath.Join(work, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		if target, ok := strings.CutPrefix(content, Link); ok {
			require.NoError(t, os.Symlink(target, file))
			continue
		}
		require.NoError(t, os.WriteFile(file, []byte(content), 0o644))
	}
	r.git(t, work, "add", "--all")
	r.git(t, work, "commit", "--quiet", "--allow-empty", "--message", "a change")
	r.git(t, work, "push", "--quiet", r.path(), branch)
	return r.git(t, work, "rev-parse", "HEAD")
}

// CommitSpecial replaces the files of a branch by an executable file, a plain one and a submodule.
func (r *Repository) CommitSpecial(t testing.TB, branch string) string {
	t.Helper()
	inner := r.Commit(t, branch, map[string]string{"run.sh": "#!/bin/sh\n", "plain.txt": "plain"})
	work := t.TempDir()
	r.git(t, work, "clone", "--quiet", "--branch="+branch, r.path(), ".")
	r.git(t, work, "update-index", "--chmod=+x", "run.sh")
	r.git(t, work, "update-index", "--add", "--cacheinfo", "160000,"+inner+",module")
	r.git(t, work, "commit", "--quiet", "--message", "a module")
	r.git(t, work, "push", "--quiet", "origin", branch)
	return r.git(t, work, "rev-parse", "HEAD")
}

// Tag makes an annotated tag of a branch.
func (r *Repository) Tag(t testing.TB, name, branch string) {
	t.Helper()
	r.git(t, r.path(), "tag", "--annotate", "--message", "a release", name, branch)
}

// Many adds the given number of branches for a commit, named bulk/0000000 and so on.
func (r *Repository) Many(t testing.TB, commit string, branches int) {
	t.Helper()
	r.git(t, r.path(), "pack-refs", "--all", "--prune")
	file, err := os.OpenFile(filepath.Join(r.path(), "packed-refs"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	first, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	head, rest, _ := strings.Cut(string(first), "\n")
	require.NoError(t, file.Truncate(0))
	text := []byte(head + "\n")
	for i := range branches {
		text = fmt.Appendf(text, "%s refs/heads/bulk/%07d\n", commit, i) // sorted before main
	}
	_, err = file.Write(append(text, rest...))
	require.NoError(t, err)
}

func (r *Repository) has(branch string) bool {
	return exec.Command("git", "-C", r.path(), "rev-parse", "--verify", "--quiet", branch).Run() == nil //nolint:noctx // local and short
}

func (r *Repository) git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	out, err := command.CombinedOutput()
	require.NoError(t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

// Server serves a repository over HTTP.
type Server struct {
	*httptest.Server

	repository *Repository
	requests   atomic.Int64
}

// HTTP serves the repository; with a username it requires the password.
func (r *Repository) HTTP(t testing.TB, username, password string) *Server {
	t.Helper()
	return r.serve(t, username, password, httptest.NewServer)
}

// HTTPS serves the repository with a certificate that no client trusts, Server.Certificate.
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

// Address returns the URL of the repository.
func (s *Server) Address() string { return s.URL + "/" + s.repository.Name }

// Requests returns the number of requests so far.
func (s *Server) Requests() int64 { return s.requests.Load() }

const (
	sshd         = "/usr/sbin/sshd"
	startTimeout = 20 * time.Second
)

// SSH is an SSH server that accepts one key.
type SSH struct {
	// URL is the URL of the repository.
	URL string
	// Host is host:port.
	Host string
	// KnownHosts contains the host's key.
	KnownHosts []byte

	repository *Repository
}

// Key makes a private key in OpenSSH's format.
func Key(t testing.TB) (private []byte, public ssh.PublicKey) {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	block, err := ssh.MarshalPrivateKey(key, "")
	require.NoError(t, err)
	signer, err := ssh.NewSignerFromKey(key)
	require.NoError(t, err)
	return pem.EncodeToMemory(block), signer.PublicKey()
}

// SSH serves the repository to the owner of a key. It runs OpenSSH's server as the test's own user.
func (r *Repository) SSH(t testing.TB, authorized ssh.PublicKey) *SSH {
	t.Helper()
	_, err := os.Stat(sshd)
	require.NoError(t, err, `openssh-server is missing: run "make packages"`)
	me, err := user.Current()
	require.NoError(t, err)
	host := loopback.Address(t)
	s := &SSH{Host: host, repository: r, URL: "ssh://" + me.Username + "@" + host + filepath.Join(r.Dir, r.Name)}
	s.run(t, authorized)
	return s
}

// Elsewhere returns the URL of another path on the server.
func (s *SSH) Elsewhere(path string) string {
	return strings.TrimSuffix(s.URL, filepath.Join(s.repository.Dir, s.repository.Name)) + path
}

func (s *SSH) run(t testing.TB, authorized ssh.PublicKey) {
	t.Helper()
	separatePrivileges(t)
	dir := t.TempDir()
	hostKey, public := Key(t)
	_, port, err := net.SplitHostPort(s.Host)
	require.NoError(t, err)
	keys, host, config := filepath.Join(dir, "authorized_keys"), filepath.Join(dir, "host_key"), filepath.Join(dir, "sshd_config")
	require.NoError(t, os.WriteFile(host, hostKey, 0o600))
	require.NoError(t, os.WriteFile(keys, ssh.MarshalAuthorizedKey(authorized), 0o600))
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `ListenAddress %s:%s
HostKey %s
AuthorizedKeysFile %s
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
`, loopback.Host, port, host, keys), 0o600))

	output, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	command := exec.CommandContext(context.WithoutCancel(t.Context()), sshd, "-D", "-e", "-f", config)
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, command.Start())
	ended := make(chan struct{})
	go func() {
		_ = command.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // including the processes that serve clients
		<-ended
		_ = output.Close()
	})
	awaitGreeting(t, s.Host, ended, output.Name())
	s.KnownHosts = []byte(knownhosts.Line([]string{knownhosts.Normalize(s.Host)}, public) + "\n")
}

// separatePrivileges makes the directory that root's sshd requires, as its service does.
func separatePrivileges(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	if err := os.Mkdir("/run/sshd", 0o755); !errors.Is(err, fs.ErrExist) {
		require.NoError(t, err)
	}
}

func awaitGreeting(t testing.TB, host string, ended <-chan struct{}, log string) {
	t.Helper()
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(t.Context(), "tcp", host)
		if err == nil {
			greeting := make([]byte, len("SSH-2.0"))
			_, err = conn.Read(greeting)
			_ = conn.Close()
			if err == nil {
				return
			}
		}
		select {
		case <-ended:
			logged, _ := os.ReadFile(log)
			require.FailNow(t, "sshd ended at its start", string(logged))
		case <-time.After(20 * time.Millisecond):
		}
	}
	require.FailNow(t, "sshd does not start")
}
