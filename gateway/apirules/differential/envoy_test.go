package differential

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startTimeout is long, as a machine under load compiles hundreds of expressions slowly.
const startTimeout = time.Minute

// envoy is a process that ends with the test.
type envoy struct {
	command *exec.Cmd
	output  outputBuffer
	ended   chan struct{}
}

// startEnvoy returns when Envoy accepts connections at the address.
func startEnvoy(t *testing.T, config object, address string) {
	t.Helper()
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	require.NotEmpty(t, assets, `run "make test" or set KUBEBUILDER_ASSETS`)
	binary, err := exec.LookPath(filepath.Join(assets, "envoy"))
	require.NoError(t, err, `run "make test", or "go run -C e2e/cluster . assets" once more`)

	text, err := json.Marshal(config)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "envoy.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))

	line := guard([]string{binary, "--config-path", file, "--concurrency", "1", "--disable-hot-restart", "--log-level", "error"})
	e := &envoy{command: exec.CommandContext(context.WithoutCancel(t.Context()), line[0], line[1:]...), ended: make(chan struct{})}
	e.command.Stdout, e.command.Stderr = &e.output, &e.output
	require.NoError(t, e.command.Start())
	go func() {
		_ = e.command.Wait()
		close(e.ended)
	}()
	t.Cleanup(func() {
		_ = e.command.Process.Kill()
		<-e.ended
	})
	e.awaitConnection(t, address)
}

func (e *envoy) awaitConnection(t *testing.T, address string) {
	t.Helper()
	dialer := net.Dialer{Timeout: time.Second}
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		if conn, err := dialer.DialContext(t.Context(), "tcp", address); err == nil {
			require.NoError(t, conn.Close())
			return
		}
		select {
		case <-e.ended:
			require.FailNow(t, "Envoy ended at its start", e.output.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	require.FailNow(t, "Envoy does not start", e.output.String())
}

// guard lets the kernel end Envoy together with the test, also when the test panics.
func guard(line []string) []string {
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		return line
	}
	return append([]string{setpriv, "--pdeathsig", "KILL", "--"}, line...)
}

type outputBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *outputBuffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

func (b *outputBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
