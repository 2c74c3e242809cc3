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
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

const (
	sshd         = "/usr/sbin/sshd"
	startTimeout = 20 * time.Second
)

// SSH is a server that accepts one key.
type SSH struct {
	// URL is that of the repository.
	URL string
	// Host is host:port.
	Host string
	// KnownHosts names the host's key.
	KnownHosts []byte

	repository *Repository
}

// Key makes a private key in the form of OpenSSH.
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

// SSH serves the repository to the owner of a key, by OpenSSH's server under the test's own user.
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

// Elsewhere is the URL of something else on the server.
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
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // with those that talk to clients
		<-ended
		_ = output.Close()
	})
	awaitGreeting(t, s.Host, ended, output.Name())
	s.KnownHosts = []byte(knownhosts.Line([]string{knownhosts.Normalize(s.Host)}, public) + "\n")
}

// separatePrivileges makes the directory that sshd of root wants, as its service does.
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
