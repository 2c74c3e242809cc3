package registrytest

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/rouse-run/rouse/internal/testing/loopback"
)

const startTimeout = 30 * time.Second

// settings become the registry's configuration.
type settings struct {
	user, password string
	tls            bool
	space          int64
}

// process is the registry itself, without what records its requests.
type process struct {
	address string
	store   string
	output  syncBuffer
	command *exec.Cmd
	ended   chan struct{}
}

func startProcess(t testing.TB, s settings) *process {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	require.NotEmpty(t, assets, `run "make test" or set KUBEBUILDER_ASSETS`)
	binary, err := exec.LookPath(filepath.Join(assets, "registry"))
	require.NoError(t, err, `run "make test", or "go run -C e2e/cluster . assets" once more`)

	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	require.NoError(t, os.Mkdir(store, 0o755))
	config := filepath.Join(dir, "config.yml")
	p := &process{address: loopback.Address(t), store: store, ended: make(chan struct{})}
	require.NoError(t, os.WriteFile(config, []byte(configuration(t, dir, store, p.address, s)), 0o600))

	line := guard([]string{binary, "serve", config})
	if s.space > 0 {
		line = guard(confine(store, s.space, []string{binary, "serve", config}))
	}
	p.command = exec.CommandContext(context.WithoutCancel(t.Context()), line[0], line[1:]...)
	p.command.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none")
	p.command.Stdout, p.command.Stderr = &p.output, &p.output
	require.NoError(t, p.command.Start())
	go func() {
		_ = p.command.Wait()
		close(p.ended)
	}()
	t.Cleanup(p.stop)
	p.awaitAnswer(t)
	return p
}

func (p *process) stop() {
	_ = p.command.Process.Kill()
	<-p.ended
}

func (p *process) awaitAnswer(t testing.TB) {
	t.Helper()
	client := &http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.address+"/", nil)
		require.NoError(t, err)
		if response, err := client.Do(request); err == nil {
			require.NoError(t, response.Body.Close())
			return
		}
		select {
		case <-p.ended:
			require.FailNow(t, "the registry ended at its start", p.output.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	require.FailNow(t, "the registry does not start", p.output.String())
}

func configuration(t testing.TB, dir, store, address string, s settings) string {
	t.Helper()
	text := fmt.Sprintf(`version: 0.1
log: {level: error, accesslog: {disabled: true}}
storage:
  filesystem: {rootdirectory: %s}
  delete: {enabled: true}
http:
  addr: %s
  relativeurls: true
  secret: only-for-tests
`, strconv.Quote(store), address)
	if s.user == "" {
		return text
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(s.password), bcrypt.MinCost)
	require.NoError(t, err)
	users := filepath.Join(dir, "users")
	require.NoError(t, os.WriteFile(users, []byte(s.user+":"+string(hash)+"\n"), 0o600))
	return text + fmt.Sprintf("auth: {htpasswd: {realm: test, path: %s}}\n", strconv.Quote(users))
}

// guard lets the kernel end the registry together with the test, also when the test panics.
func guard(line []string) []string {
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		return line
	}
	return append([]string{setpriv, "--pdeathsig", "KILL", "--"}, line...)
}

// confine gives the store a file system of its own with so much space.
func confine(store string, space int64, line []string) []string {
	script := fmt.Sprintf(`mount -t tmpfs -o size=%d none "$0" && exec "$@"`, space)
	unshare := []string{"unshare", "--mount"}
	if os.Geteuid() != 0 {
		unshare = append(unshare, "--map-root-user")
	}
	return append(append(unshare, "--", "sh", "-c", script, store), line...)
}

// canConfine reports whether this user may have a file system of his own.
func canConfine(ctx context.Context, dir string) bool {
	line := confine(dir, 1<<20, []string{"true"})
	return exec.CommandContext(ctx, line[0], line[1:]...).Run() == nil
}

type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *syncBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
