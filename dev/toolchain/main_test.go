package toolchain

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// cache is shared by all tests except those that corrupt it: preparing the servers takes a while.
var cache string

func TestMain(m *testing.M) {
	var err error
	if cache, err = os.MkdirTemp("", "toolchain-cache-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(cache)
	os.Exit(code)
}

// fixture is a toolchain with its reports.
type fixture struct {
	*Toolchain

	in Inputs

	mu            sync.Mutex
	progressLines []string
	done          []string // and the reported work
	out           bytes.Buffer
}

func newFixture(t *testing.T, options ...func(*Options)) *fixture {
	t.Helper()
	w := &fixture{in: Inputs{PublisherAddress: "http://127.0.0.1:1/publish", State: t.TempDir()}}
	o := Options{Cache: cache, Output: w, Progress: func(fn types.NamespacedName, text string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.progressLines = append(w.progressLines, fn.String()+": "+text)
	}, Doing: func(fn types.NamespacedName, text string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.done = append(w.done, fn.String()+": "+text)
	}}
	for _, option := range options {
		option(&o)
	}
	w.Toolchain = New(o)
	return w
}

func (w *fixture) Write(text []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(text)
}

func (w *fixture) progress() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.progressLines, "\n")
}

func (w *fixture) did() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.done, "\n")
}

func (w *fixture) launch(t *testing.T, fn manifest.Function) Launch {
	t.Helper()
	launch, err := w.Launch(t.Context(), fn, w.in)
	for range 2 {
		if err == nil || !strings.Contains(err.Error(), "does not answer; ") && !strings.Contains(err.Error(), "does not answer (") {
			break
		}
		launch, err = w.Launch(t.Context(), fn, w.in) // packages come over a network
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	require.NoError(t, err, w.out.String())
	return launch
}

func (w *fixture) refused(t *testing.T, fn manifest.Function) *Failure {
	t.Helper()
	_, err := w.Launch(t.Context(), fn, w.in)
	var failed *Failure
	require.ErrorAs(t, err, &failed)
	return failed
}

func inline(runtime, source string, change ...func(*v1alpha2.Function)) manifest.Function {
	fn := &v1alpha2.Function{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "price"}}
	fn.Spec.Runtime = v1alpha2.Runtime(runtime)
	fn.Spec.Source.Inline = &v1alpha2.InlineSource{Source: source}
	for _, each := range change {
		each(fn)
	}
	return manifest.Function{Function: fn, At: manifest.Position{File: "shop/price.yaml", Line: 3}}
}

func depends(on string) func(*v1alpha2.Function) {
	return func(fn *v1alpha2.Function) { fn.Spec.Source.Inline.Dependencies = on }
}

// started is a running Function.
type started struct {
	url    string
	output *bytes.Buffer // complete after it ended
}

func start(t *testing.T, launch Launch) started {
	t.Helper()
	ready, readyWriter, err := os.Pipe()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), launch.Path, launch.Args...)
	command.Dir, command.Env = launch.Dir, slices.Concat(launch.Env, []string{"FUNC_PORT=0", "FUNC_READY_FD=3"})
	command.ExtraFiles = []*os.File{readyWriter}
	output := &bytes.Buffer{}
	command.Stdout, command.Stderr = output, output
	require.NoError(t, command.Start())
	require.NoError(t, readyWriter.Close())
	ended := false
	end := func() {
		if !ended {
			ended = true
			_ = command.Process.Kill()
			_ = command.Wait()
		}
	}
	t.Cleanup(end)
	port, err := bufio.NewReader(ready).ReadString('\n')
	if err != nil {
		end()
		require.NoError(t, err, "it does not start: %s", output)
	}
	require.NoError(t, ready.Close())
	return started{url: "http://127.0.0.1:" + strings.TrimSpace(port), output: output}
}

func (s started) get(t *testing.T) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url, http.NoBody)
	require.NoError(t, err)
	response, err := loopback.Default.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(body)
}
