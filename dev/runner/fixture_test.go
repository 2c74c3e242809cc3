package runner

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/toolchain"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// envRole makes the test binary a Function's server: "serve v1", "crash" and the like.
const envRole = "FUNCTION_TEST_ROLE"

func TestMain(m *testing.M) {
	process.Keep()
	if role := os.Getenv(envRole); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

func play(role string) int {
	word, rest, _ := strings.Cut(role, " ")
	switch word {
	case "serve":
		return serveVersion(rest)
	case "crash":
		_, _ = io.WriteString(os.Stderr, "handler did not load: TypeError: no price\n    at handler.js:3:7\n")
		return 1
	case "hang":
		select {}
	}
	return 2
}

// serveVersion responds with the version after it has read the whole request, and shuts down gracefully.
func serveVersion(version string) int {
	asked := make(chan os.Signal, 2)
	signal.Notify(asked, syscall.SIGTERM)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 3
	}
	var busy sync.Mutex
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		busy.Lock() // a single thread, as in Node.js
		if r.URL.Path == "/loop" {
			select {}
		}
		busy.Unlock()
		if r.URL.Path == healthPath {
			return
		}
		if r.URL.Path == "/crash" {
			_, _ = fmt.Fprintln(os.Stderr, "RangeError: told to crash")
			os.Exit(7)
		}
		_, _ = fmt.Fprintln(os.Stdout, "got "+r.URL.Path)
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = fmt.Fprintf(w, "%s %s %s", version, r.Host, r.URL.RequestURI())
	})}
	ready := os.NewFile(3, "ready")
	_, _ = fmt.Fprintf(ready, "%d\n", listener.Addr().(*net.TCPAddr).Port)
	_ = ready.Close()
	drained := make(chan struct{})
	go func() {
		<-asked
		_, _ = fmt.Fprintln(os.Stdout, "draining")
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = server.Shutdown(ctx)
		close(drained)
	}()
	_ = server.Serve(listener)
	<-drained
	return 0
}

// testTimeout is the timeout of awaited events; only a failing test reaches it.
const testTimeout = 2 * time.Minute

var pricing = types.NamespacedName{Namespace: "orders", Name: "pricing"}

// launcher starts the test binary in the role that the source names, in place of the toolchain.
type launcher struct{}

func (launcher) Launch(_ context.Context, fn manifest.Function, in toolchain.Inputs) (toolchain.Launch, error) {
	role := fn.Spec.Source.Inline.Source
	if role == "unbuildable" {
		return toolchain.Launch{}, &toolchain.Failure{Reason: "InstallFailed", Message: "there is no package pandsa", Log: "npm said so"}
	}
	launch := toolchain.Launch{Path: os.Args[0], Env: []string{envRole + "=" + role}, Dir: "/", Identity: role}
	if in.Debug {
		launch.DebugAddress = "127.0.0.1:9229"
	}
	return launch, nil
}

// fixture is a set of running Functions.
type fixture struct {
	*Functions
	t    *testing.T
	feed *process.Feed
	stop func()
}

type holds struct{ functions func() *Functions }

// Hold wakes the Function and releases it at once.
func (h holds) Hold(fn types.NamespacedName) func() {
	h.functions().Scale(fn, 1)
	return func() { h.functions().Scale(fn, 0) }
}

func run(t *testing.T, options Options) *fixture {
	t.Helper()
	return runWith(t, launcher{}, options)
}

func runWith(t *testing.T, from Launcher, options Options) *fixture {
	t.Helper()
	supervisor, err := process.New()
	require.NoError(t, err)
	w := &fixture{t: t, feed: process.NewFeed(100)}
	w.Functions = New(Deps{
		Launcher: from, Supervisor: supervisor, Feed: w.feed, Log: logr.Discard(),
		Waker: holds{func() *Functions { return w.Functions }},
	}, options)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	var once sync.Once
	w.stop = func() {
		once.Do(func() {
			cancel()
			require.NoError(t, <-done)
			require.NoError(t, supervisor.Close())
		})
	}
	t.Cleanup(w.stop)
	return w
}

// function returns a Function orders/pricing whose source is a role.
func function(role string, change ...func(*serverlessv1alpha2.Function)) manifest.Function {
	fn := &serverlessv1alpha2.Function{
		ObjectMeta: metav1.ObjectMeta{Namespace: pricing.Namespace, Name: pricing.Name},
		Spec: serverlessv1alpha2.FunctionSpec{
			Runtime: "nodejs22",
			Source:  serverlessv1alpha2.Source{Inline: &serverlessv1alpha2.InlineSource{Source: role}},
		},
	}
	for _, apply := range change {
		apply(fn)
	}
	return manifest.Function{
		Function: fn,
		At:       manifest.Position{File: "orders/pricing.yaml", Line: 1},
		Source:   manifest.Position{File: "orders/pricing.yaml", Line: 10},
	}
}

func sleeps(low, high int32) func(*serverlessv1alpha2.Function) {
	return func(fn *serverlessv1alpha2.Function) {
		fn.Spec.ScaleConfig = &serverlessv1alpha2.ScaleConfig{MinReplicas: new(low), MaxReplicas: new(high)}
	}
}

func set(functions ...manifest.Function) manifest.Set { return manifest.Set{Functions: functions} }

// await waits until the Function's status fits.
func (w *fixture) await(what string, fits func(Status) bool) Status {
	w.t.Helper()
	var last Status
	for timeout := time.After(testTimeout); ; {
		changed := w.Changed()
		for _, status := range w.Status() {
			if last = status; fits(status) {
				return status
			}
		}
		select {
		case <-changed:
		case <-timeout:
			require.Fail(w.t, "never "+what, "last: %+v\n%s", last, w.logged())
		}
	}
}

func (w *fixture) awaitPhase(phase string) Status {
	w.t.Helper()
	return w.await(phase, func(s Status) bool { return s.Phase == phase })
}

// awaitReplicas waits until exactly n replicas run and are ready.
func (w *fixture) awaitReplicas(n int) Status {
	w.t.Helper()
	return w.await("replicas", func(s Status) bool { return s.Ready == n && s.Desired == n && w.alive() == n })
}

func (w *fixture) alive() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.left()
}

// endpoints watches the endpoints of the Function's Service.
func (w *fixture) endpoints(port int32) <-chan []routing.Endpoint {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	all, done := make(chan []routing.Endpoint, 100), make(chan error, 1)
	go func() {
		done <- w.Watch(ctx, pricing, port, func(endpoints []routing.Endpoint) { all <- endpoints })
	}()
	w.t.Cleanup(func() { cancel(); require.NoError(w.t, <-done) })
	return all
}

func (w *fixture) nextEndpoints(all <-chan []routing.Endpoint) []routing.Endpoint {
	w.t.Helper()
	select {
	case endpoints := <-all:
		return endpoints
	case <-time.After(testTimeout):
		require.Fail(w.t, "no endpoints came")
		return nil
	}
}

// request sends a request to the front port.
func (w *fixture) request(path, host string, body io.Reader) (int, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.Status()[0].URL+path, body)
	require.NoError(w.t, err)
	r.Host, r.Close = host, true
	answer, err := loopback.Default.Do(r)
	require.NoError(w.t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	require.NoError(w.t, err)
	return answer.StatusCode, strings.TrimSpace(string(text))
}

func (w *fixture) logged() string {
	var texts []string
	for _, line := range w.feed.Recent(pricing, 100) {
		texts = append(texts, line.Stream+": "+line.Text)
	}
	return strings.Join(texts, "\n")
}

// awaitLine waits for a line of the Function's output.
func (w *fixture) awaitLine(text string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), testTimeout)
	defer cancel()
	found := false
	w.feed.Follow(ctx, pricing, 100, func(line process.Line) {
		if line.Text == text {
			found = true
			cancel()
		}
	})
	require.True(w.t, found, "no line %q in the feed", text)
}
