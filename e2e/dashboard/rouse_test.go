package dashboard

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// waitTimeout bounds every wait: it costs nothing when what is awaited comes.
const waitTimeout = 2 * time.Minute

// client keeps no connections, which would outlive a test.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// rouse is a running rouse dev.
type rouse struct {
	Publish   string `json:"publish"`
	Dashboard string `json:"dashboard"`
	Token     string `json:"token"`

	folder string
}

// start runs rouse dev with a copy of the shop until the test ends.
func start(t *testing.T) *rouse {
	t.Helper()
	program, err := filepath.Abs("../../bin/rouse")
	require.NoError(t, err)
	require.FileExists(t, program, "make test-dashboard builds it")
	folder, state := filepath.Join(t.TempDir(), "shop"), t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS("testdata/shop")))
	command := exec.Command(program, "dev", folder, "--plain", "--state", state, "--cooldown", "6s")
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	require.NoError(t, command.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = command.Wait() // it ends by a signal
	}()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(waitTimeout):
			_ = command.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("output of rouse dev:\n%s", out.String())
		}
	})
	found := &rouse{folder: folder}
	eventually(t, "rouse dev announces itself", func() bool {
		files, _ := filepath.Glob(filepath.Join(state, "*", "instance.json"))
		if len(files) != 1 {
			return false
		}
		content, err := os.ReadFile(files[0])
		return err == nil && json.Unmarshal(content, found) == nil && found.Dashboard != ""
	})
	return found
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	within(t, waitTimeout, what, holds)
}

func within(t *testing.T, timeout time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(timeout); !holds(); time.Sleep(50 * time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "it does not come to hold that %s", what)
	}
}

// order publishes an order of a product.
func (r *rouse) order(t *testing.T, id, product string) {
	t.Helper()
	data := map[string]any{"id": id, "lines": []any{map[string]any{"product": product, "quantity": 2}}}
	r.publish(t, "order.received", "store", id+".received", data)
}

func (r *rouse) publish(t *testing.T, kind, source, id string, data any) {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"specversion": "1.0", "type": kind, "source": source, "id": id, "datacontenttype": "application/json", "data": data,
	})
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.Publish, bytes.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/cloudevents+json")
	response, err := client.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(t, http.StatusNoContent, response.StatusCode)
}
