package scaffold

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/toolchain"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/loopback"
	"github.com/rouse-run/rouse/runtimes/languages"
)

func TestMain(m *testing.M) {
	process.Keep()
	os.Exit(controlPlane.Main(m))
}

// controlPlane starts for the first test that needs it.
var controlPlane = envtest.New()

// testTimeout exceeds the duration of any step on a slow machine.
const testTimeout = 5 * time.Minute

// The generated Functions in the runtimes' real servers: their own tests only simulate the runtime.
func TestNewFunctionsRunInTheirRuntimesAsInTheirTests(t *testing.T) {
	t.Parallel()
	supervisor, err := process.New()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, supervisor.Close()) })
	tools := toolchain.New(toolchain.Options{Cache: t.TempDir()})
	for _, runtime := range []string{"nodejs22", "nodejs26", "python312", "python314", "go126"} {
		for _, trigger := range []string{" over HTTP", " by events"} {
			f := every()[runtime+trigger]
			t.Run(runtime+trigger, func(t *testing.T) { start(t, f, tools, supervisor).answers(t, f) })
			if known, err := languages.Of(f.Runtime); err == nil && known.Scaffold.Typed != nil {
				f.Typed = true
				t.Run(runtime+trigger+" with types", func(t *testing.T) { start(t, f, tools, supervisor).answers(t, f) })
			}
		}
	}
}

func (r *running) answers(t *testing.T, f Function) {
	t.Helper()
	if f.Trigger == TriggerHTTP {
		r.greets(t)
	} else {
		r.takesEvents(t, f)
	}
}

// running is a Function that listens.
type running struct {
	url string

	mu    sync.Mutex
	lines []string
}

func start(t *testing.T, f Function, tools *toolchain.Toolchain, supervisor *process.Supervisor) *running {
	t.Helper()
	return startAt(t, built(t, f), "http://127.0.0.1:1/publish", tools, supervisor)
}

// startAt starts a Function that emits its events to a publisher.
func startAt(t *testing.T, fn manifest.Function, publisher string, tools *toolchain.Toolchain, supervisor *process.Supervisor) *running {
	t.Helper()
	launch, err := tools.Launch(t.Context(), fn, toolchain.Inputs{PublisherAddress: publisher, State: t.TempDir()})
	require.NoError(t, err)
	r := &running{}
	server, err := supervisor.Start(process.Command{Path: launch.Path, Args: launch.Args, Env: launch.Env, Dir: launch.Dir}, r.add)
	require.NoError(t, err)
	t.Cleanup(func() { server.Stop(0) })
	select {
	case <-server.Ready():
	case <-server.Done():
	case <-time.After(testTimeout):
	}
	require.NotEmpty(t, server.Address(), "it does not start: %s", r.printed())
	r.url = "http://" + server.Address()
	return r
}

// built returns the Function as built by kustomize, with its files.
func built(t *testing.T, f Function) manifest.Function {
	t.Helper()
	if f.Typed {
		set, problems, err := manifest.Read(write(t, f))
		require.NoError(t, err)
		require.Empty(t, problems)
		require.Len(t, set.Functions, 1)
		return set.Functions[0]
	}
	objects, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), write(t, f))
	require.NoError(t, err)
	for _, object := range objects.Resources() {
		if object.GetKind() != "Function" {
			continue
		}
		text, err := object.AsYAML()
		require.NoError(t, err)
		var fn v1alpha2.Function
		require.NoError(t, yaml.Unmarshal(text, &fn))
		return manifest.Function{Function: &fn}
	}
	require.FailNow(t, "there is no Function")
	return manifest.Function{}
}

func (r *running) add(_, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, text)
}

func (r *running) printed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.lines, "\n")
}

func (r *running) post(t *testing.T, header http.Header, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url, bytes.NewBufferString(body))
	require.NoError(t, err)
	request.Header = header
	response, err := loopback.Default.Do(request)
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}

func (r *running) greets(t *testing.T) {
	t.Helper()
	header := http.Header{"Content-Type": {"application/json"}}
	status, text := r.post(t, header, `{"name": "Ada"}`)
	require.Equal(t, http.StatusOK, status, text)
	require.JSONEq(t, `{"hello": "Ada"}`, text)
	status, text = r.post(t, header, `{}`)
	require.Equal(t, http.StatusOK, status, text)
	require.JSONEq(t, `{"hello": "World"}`, text)
	status, text = r.post(t, http.Header{}, "")
	require.Equal(t, http.StatusOK, status, text)
	require.JSONEq(t, `{"hello": "World"}`, text)
}

func (r *running) takesEvents(t *testing.T, f Function) {
	t.Helper()
	header := http.Header{
		"Content-Type": {"application/json"}, "Ce-Specversion": {"1.0"}, "Ce-Id": {"7"}, "Ce-Type": {f.Type}, "Ce-Source": {f.Source},
	}
	status, text := r.post(t, header, `{"id": "1"}`)
	require.Equal(t, http.StatusOK, status/100*100, text)
	line, err := json.Marshal(map[string]any{"event": f.Type, "id": "7", "data": map[string]string{"id": "1"}})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return r.logged(string(line)) }, testTimeout, 10*time.Millisecond, "it does not log the event")

	status, text = r.post(t, header, `"text"`)
	require.Equal(t, http.StatusBadRequest, status)
	require.Equal(t, "the data is no JSON object", text)
}

// logged reports whether a line is the same JSON.
func (r *running) logged(want string) bool {
	var wanted, found any
	if json.Unmarshal([]byte(want), &wanted) != nil {
		return false
	}
	for line := range strings.SplitSeq(r.printed(), "\n") {
		if json.Unmarshal([]byte(line), &found) == nil && equalJSON(found, wanted) {
			return true
		}
	}
	return false
}

func equalJSON(a, b any) bool {
	left, errLeft := json.Marshal(a)
	right, errRight := json.Marshal(b)
	return errLeft == nil && errRight == nil && bytes.Equal(left, right)
}
