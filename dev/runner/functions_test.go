package runner

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/dev/toolchain"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

func TestAFunctionWithoutScalingRunsItsReplicas(t *testing.T) {
	t.Parallel()
	w := run(t, Options{})
	w.Apply(set(function("serve v1", func(fn *serverlessv1alpha2.Function) { fn.Spec.Replicas = ptr.To[int32](2) })), nil)
	status := w.awaitReplicas(2)
	require.Equal(t, Status{
		Namespace: "orders", Name: "pricing", Runtime: "nodejs22", URL: status.URL, Phase: Ready, Desired: 2, Ready: 2,
		At: manifest.Position{File: "orders/pricing.yaml", Line: 1},
	}, status)
	w.Scale(pricing, 5)
	require.Equal(t, 2, w.Status()[0].Desired, "a Function without scaleConfig is not scaled")
	code, text := w.request("/a?b=c", "localhost", nil)
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "v1 localhost /a?b=c", text)
}

func TestAFunctionFollowsItsScaleWithinItsBounds(t *testing.T) {
	t.Parallel()
	w := run(t, Options{})
	w.Apply(set(function("serve v1", sleeps(0, 2))), nil)
	w.awaitPhase(Asleep)
	w.Scale(pricing, 9)
	status := w.awaitReplicas(2)
	require.Equal(t, 1, status.Wakes)
	require.Positive(t, status.LastWake)
	w.Scale(pricing, 1)
	w.awaitReplicas(1)
	w.Scale(pricing, 0)
	w.awaitReplicas(0)
	w.Scale(pricing, 1)
	require.Equal(t, 2, w.awaitReplicas(1).Wakes)
	require.Zero(t, w.Status()[0].Restarts, "a requested end must not count as a restart")
}

func TestChangedFunctionTakesOverAndTheOldVersionCompletesItsRequests(t *testing.T) {
	t.Parallel()
	w := run(t, Options{})
	endpoints := w.endpoints(80)
	require.Empty(t, w.nextEndpoints(endpoints))
	w.Apply(set(function("serve v1")), nil)
	first := w.nextEndpoints(endpoints)
	require.Equal(t, []routing.Endpoint{{Address: first[0].Address, Ready: true, Function: true}}, first)

	body, write := io.Pipe()
	answers := make(chan string, 1)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.Status()[0].URL+"/slow", body)
	require.NoError(t, err)
	go func() {
		defer close(answers)
		answer, err := loopback.Default.Do(r)
		if err != nil {
			return
		}
		defer func() { _ = answer.Body.Close() }()
		text, _ := io.ReadAll(answer.Body)
		answers <- string(text)
	}()
	w.awaitLine("got /slow")

	w.Apply(set(function("serve v2")), nil)
	second := w.nextEndpoints(endpoints)
	for len(second) == 2 { // both, while one is ready and the other is not yet terminated
		second = w.nextEndpoints(endpoints)
	}
	require.Len(t, second, 1)
	require.NotEqual(t, first[0].Address, second[0].Address)
	_, text := w.request("/", "localhost", nil)
	require.Equal(t, "v2 localhost /", text)

	require.NoError(t, write.Close())
	require.Contains(t, <-answers, "v1 ")
	w.awaitReplicas(1)
}

func TestAVersionThatDoesNotStartLeavesTheOldOneServing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ role, want string }{
		"that crashes": {
			role: "crash", want: "orders/pricing.yaml:12: TypeError: no price (exit status 1)\n" +
				"handler did not load: TypeError: no price\n    at orders/pricing.yaml:12",
		},
		"that cannot be prepared": {
			role: "unbuildable",
			want: "orders/pricing.yaml:1: InstallFailed: there is no package pandsa\nnpm said so",
		},
		"that never becomes ready": {
			role: "hang",
			want: "orders/pricing.yaml:10: it was not ready within 3s: its code loops or waits where it should only define the handler",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := run(t, Options{StartWithin: testTimeout})
			w.Apply(set(function("serve v1")), nil)
			w.awaitPhase(Ready)
			if tc.role == "hang" {
				w.mu.Lock()
				w.options.StartWithin = 3 * time.Second
				w.mu.Unlock()
			}
			w.Apply(set(function(tc.role)), nil)
			status := w.await("failed", func(s Status) bool { return s.LastError != "" })
			require.Equal(t, tc.want, status.LastError)
			require.Equal(t, Failing, status.Phase)
			require.Equal(t, 1, status.Ready)
			code, text := w.request("/", "localhost", nil)
			require.Equal(t, http.StatusOK, code)
			require.Equal(t, "v1 localhost /", text)
			w.Apply(set(function("serve v3")), nil)
			w.await("mended", func(s Status) bool { return s.Phase == Ready && s.LastError == "" })
			_, text = w.request("/", "localhost", nil)
			require.Equal(t, "v3 localhost /", text)
		})
	}
}

func TestCrashIsReportedAtOnceAndEndsWithANewVersion(t *testing.T) {
	t.Parallel()
	w := run(t, Options{Backoff: time.Hour, MaxBackoff: time.Hour})
	w.Apply(set(function("crash", sleeps(0, 1))), nil)
	w.awaitPhase(Asleep)
	for range 2 { // while it starts, and before the next attempt
		code, text := w.request("/", "localhost", nil)
		require.Equal(t, http.StatusServiceUnavailable, code)
		require.Contains(t, text, "Function orders/pricing does not run: orders/pricing.yaml:12: TypeError: no price (exit status 1)")
	}
	require.Contains(t, w.logged(), "stderr: handler did not load: TypeError: no price")
	require.Contains(t, w.logged(), "rouse: orders/pricing.yaml:12: TypeError: no price (exit status 1); it is started again in 1h0m0s")
	w.Apply(set(function("serve v2", sleeps(0, 1))), nil)
	w.await("mended", func(s Status) bool { return s.LastError == "" })
	code, _ := w.request("/", "localhost", nil)
	require.Equal(t, http.StatusOK, code)
}

func TestAFunctionThatCrashesIsStartedAgain(t *testing.T) {
	t.Parallel()
	w := run(t, Options{Backoff: time.Millisecond, MaxBackoff: time.Millisecond, Steady: time.Millisecond})
	w.Apply(set(function("serve v1")), nil)
	w.awaitPhase(Ready)
	code, _ := w.request("/crash", "localhost", nil)
	require.Equal(t, http.StatusBadGateway, code)
	status := w.await("started again", func(s Status) bool { return s.Restarts == 1 && s.Ready == 1 && s.LastError == "" })
	require.Zero(t, status.Wakes)
	require.Contains(t, w.logged(), "RangeError: told to crash (exit status 7)")
}

func TestAnErrorIsForgottenAsSoonAsTheFunctionRunsAgain(t *testing.T) {
	t.Parallel()
	w := run(t, Options{Backoff: time.Millisecond, MaxBackoff: time.Millisecond, Steady: time.Hour})
	w.Apply(set(function("serve v1")), nil)
	w.awaitPhase(Ready)
	code, _ := w.request("/crash", "localhost", nil)
	require.Equal(t, http.StatusBadGateway, code)
	w.await("well again", func(s Status) bool { return s.Restarts == 1 && s.Ready == 1 && s.LastError == "" })
}

func TestLoopingHandlerIsReportedAndReplaced(t *testing.T) {
	t.Parallel()
	w := run(t, Options{SilentAfter: 50 * time.Millisecond, Backoff: time.Millisecond, MaxBackoff: time.Millisecond, Steady: time.Millisecond})
	w.Apply(set(function("serve v1", func(fn *serverlessv1alpha2.Function) {
		fn.Spec.Env = []corev1.EnvVar{{Name: "FUNC_TIMEOUT", Value: "0.1"}}
	})), nil)
	w.awaitPhase(Ready)
	answers := make(chan int, 1)
	go func() {
		code, _ := w.request("/loop", "localhost", nil)
		answers <- code
	}()
	const silent = "orders/pricing.yaml:10: pricing-1 does not answer since 50ms: handler pricing seems to loop; it is ended and replaced after 11.1s"
	require.Equal(t, silent, w.await("silent", func(s Status) bool { return s.LastError != "" }).LastError)
	require.Equal(t, http.StatusBadGateway, <-answers)
	w.await("replaced", func(s Status) bool { return s.Restarts == 1 && s.Ready == 1 && s.LastError == "" })
	require.Contains(t, w.logged(), "rouse: "+silent)
	require.Contains(t, w.logged(), "orders/pricing.yaml:10: handler pricing did not answer within 11.1s and was ended: it seems to loop; it is started again")
	code, _ := w.request("/", "localhost", nil)
	require.Equal(t, http.StatusOK, code)
}

func TestARequestIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	w := run(t, Options{StartWithin: 50 * time.Millisecond, Backoff: time.Hour, MaxBackoff: time.Hour})
	w.Apply(set(function("hang", sleeps(0, 1))), nil)
	w.awaitPhase(Asleep)
	code, text := w.request("/", "evil.example:8080", nil)
	require.Equal(t, http.StatusForbidden, code)
	require.Equal(t, `this port is for this machine alone and does not answer as "evil.example:8080"; use localhost`, text)
	require.Zero(t, w.Status()[0].Wakes)
	code, text = w.request("/", "localhost", nil)
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Regexp(t, `has no pod that takes requests after [\d.]+m?s: it is \w+, with 0 of 1 replicas ready|was not ready within 50ms`, text)
}

func TestRequestWaitsForTheFunctionsTimeout(t *testing.T) {
	t.Parallel()
	w := run(t, Options{StartWithin: testTimeout})
	w.Apply(set(function("hang", sleeps(0, 1), func(fn *serverlessv1alpha2.Function) {
		fn.Annotations = map[string]string{serverlessv1alpha2.AnnotationHTTPWait: "1"}
	})), nil)
	w.awaitPhase(Asleep)
	code, text := w.request("/", "localhost", nil)
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Regexp(t, `^Function orders/pricing has no pod that takes requests after [\d.]+s: `, text) // not of milliseconds
}

func TestProbesAndScrapersOfAFrontPortWakeNoFunction(t *testing.T) {
	t.Parallel()
	w := run(t, Options{})
	w.Apply(set(function("serve v1", sleeps(0, 1))), nil)
	url := w.awaitPhase(Asleep).URL
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/metrics": http.StatusServiceUnavailable} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		require.NoError(t, err)
		answer, err := loopback.Default.Transport.RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, want, answer.StatusCode, path)
	}
	require.Zero(t, w.Status()[0].Wakes)
}

func TestWaitingRequestsFailWhenTheirFunctionIsRemoved(t *testing.T) {
	t.Parallel()
	for want, end := range map[string]func(*fixture){
		"the Function was removed":        func(w *fixture) { w.Apply(set(), nil) },
		"the local mode is being stopped": func(w *fixture) { w.stop() },
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			w := run(t, Options{StartWithin: testTimeout})
			w.Apply(set(function("hang", sleeps(0, 1))), nil)
			w.awaitPhase(Asleep)
			url, answers := w.Status()[0].URL, make(chan string, 1)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, nil)
			require.NoError(t, err)
			go func() {
				defer close(answers)
				answer, err := loopback.Default.Do(r)
				if err != nil {
					return
				}
				defer func() { _ = answer.Body.Close() }()
				text, _ := io.ReadAll(answer.Body)
				answers <- string(text)
			}()
			w.await("woken", func(s Status) bool { return s.Wakes == 1 })
			end(w)
			require.Equal(t, "Function orders/pricing does not run: "+want+"\n", <-answers)
		})
	}
}

func TestAFrontPortKeepsItsCallersConnections(t *testing.T) {
	t.Parallel()
	w := run(t, Options{})
	w.Apply(set(function("serve v1")), nil)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.awaitReplicas(1).URL, nil)
	require.NoError(t, err)
	answer, err := loopback.Default.Transport.RoundTrip(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.False(t, answer.Close, "there is no Service that leads elsewhere")
}

// announced is a launcher that signals each call.
type announced struct {
	launcher

	asked chan struct{}
}

func (a announced) Launch(ctx context.Context, fn manifest.Function, in toolchain.Inputs) (toolchain.Launch, error) {
	a.asked <- struct{}{}
	return a.launcher.Launch(ctx, fn, in)
}

func TestFailedPreparationIsReportedOnce(t *testing.T) {
	t.Parallel()
	a := announced{asked: make(chan struct{}, 3)}
	w := runWith(t, a, Options{})
	for range 3 { // one per change of another file; each is done when the next is requested
		w.Apply(set(function("unbuildable")), nil)
		<-a.asked
		w.awaitPhase(Failing)
	}
	require.Equal(t, 1, strings.Count(w.logged(), "there is no package pandsa"), w.logged())
	require.Equal(t, 1, strings.Count(w.logged(), "npm said so"), w.logged())
}

func TestFunctionThatWasNeverPreparedRespondsWithTheReason(t *testing.T) {
	t.Parallel()
	w := run(t, Options{})
	w.Apply(set(function("unbuildable", sleeps(0, 1))), nil)
	w.awaitPhase(Failing)
	code, text := w.request("/", "127.0.0.1", nil)
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Contains(t, text, "Function orders/pricing does not run: orders/pricing.yaml:1: InstallFailed: there is no package pandsa")
}

func TestRemovedFunctionEndsAndOneWithABrokenFileContinues(t *testing.T) {
	t.Parallel()
	w := run(t, Options{})
	w.Apply(set(function("serve v1")), nil)
	url := w.awaitReplicas(1).URL
	broken := manifest.Problem{Position: manifest.Position{File: "orders/pricing.yaml", Line: 4}, Message: "did not find expected key"}
	w.Apply(set(), []manifest.Problem{broken})
	status := w.await("blocked", func(s Status) bool { return s.LastError != "" })
	require.Equal(t, "orders/pricing.yaml:4: did not find expected key", status.LastError)
	require.Equal(t, 1, status.Ready)
	w.Apply(set(function("serve v1")), nil)
	require.Empty(t, w.Status()[0].LastError)
	w.Apply(set(), nil)
	require.Empty(t, w.Status())
	for w.alive() > 0 {
		<-w.Changed()
	}
	w.Apply(set(function("serve v1")), nil)
	require.Equal(t, url, w.awaitReplicas(1).URL, "its port is still its own")
}

func TestADebuggedFunctionEndsBeforeTheNextOneStarts(t *testing.T) {
	t.Parallel()
	w := run(t, Options{Debug: func(name types.NamespacedName) bool { return name == pricing }})
	replicas := func(fn *serverlessv1alpha2.Function) { fn.Spec.Replicas = ptr.To[int32](3) }
	w.Apply(set(function("serve v1", replicas)), nil)
	require.Equal(t, "127.0.0.1:9229", w.awaitReplicas(1).Debug)
	endpoints := w.endpoints(80)
	require.Len(t, w.nextEndpoints(endpoints), 1)
	w.Apply(set(function("serve v2", replicas)), nil)
	require.Empty(t, w.nextEndpoints(endpoints))
	require.Len(t, w.nextEndpoints(endpoints), 1)
}

func TestRunLeavesNoProcesses(t *testing.T) {
	t.Parallel()
	w := run(t, Options{EndWithin: testTimeout})
	w.Apply(set(function("serve v1")), nil)
	url := w.awaitReplicas(1).URL
	endpoints := w.endpoints(80)
	require.Len(t, w.nextEndpoints(endpoints), 1)
	w.stop()
	require.Empty(t, w.nextEndpoints(endpoints))
	require.Zero(t, w.alive())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	_, err = loopback.Default.Do(r) //nolint:bodyclose // there is none
	require.ErrorContains(t, err, "refused")
}

func TestOnlyThePortOfTheServiceHasEndpoints(t *testing.T) {
	t.Parallel()
	w := run(t, Options{})
	w.Apply(set(function("serve v1")), nil)
	w.awaitReplicas(1)
	require.Empty(t, w.nextEndpoints(w.endpoints(8080)))
	require.Len(t, w.nextEndpoints(w.endpoints(80)), 1)
}

func TestHandlersOfTheRealRuntimesWakeReloadAndReportErrorPositions(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	for runtime, tc := range map[string]struct{ first, second, broken, wants string }{
		"nodejs22": {
			first:  "module.exports.main = () => 'first'\n",
			second: "module.exports.main = () => 'second'\n",
			broken: "const a = 1\n\nnothing()\nmodule.exports.main = () => a\n",
			wants:  "orders/pricing.yaml:12: ReferenceError: nothing is not defined (exit status 1)\n",
		},
		"python312": {
			first:  "def main(event, context):\n    return 'first'\n",
			second: "def main(event, context):\n    return 'second'\n",
			broken: "import os\n\nnothing()\n\n\ndef main(event, context):\n    return 'no'\n",
			wants:  "orders/pricing.yaml:12: NameError: name 'nothing' is not defined (exit status 1)\n",
		},
		"go126": {
			first:  handlerInGo("\"first\""),
			second: handlerInGo("\"second\""),
			broken: "package handler\n\nimport \"net/http\"; var _ = nothing()\n\nfunc Handle(http.ResponseWriter, *http.Request) {}\n",
			wants:  "orders/pricing.yaml:12: undefined: nothing",
		},
	} {
		t.Run(runtime, func(t *testing.T) {
			t.Parallel()
			w := runWith(t, toolchain.New(toolchain.Options{Cache: cache}), Options{State: t.TempDir(), PublisherAddress: "http://127.0.0.1:1/publish"})
			of := func(source string) func() {
				return func() {
					w.Apply(set(function(source, sleeps(1, 2), func(fn *serverlessv1alpha2.Function) {
						fn.Spec.Runtime = serverlessv1alpha2.Runtime(runtime)
					})), nil)
				}
			}
			for _, source := range []struct {
				apply func()
				want  string
			}{{of(tc.first), "first"}, {of(tc.second), "second"}} {
				source.apply()
				w.await("of this version", func(s Status) bool {
					if s.Phase != Ready {
						return false
					}
					code, text := w.request("/", "localhost", nil)
					return code == http.StatusOK && text == source.want
				})
			}
			of(tc.broken)()
			status := w.await("failing", func(s Status) bool { return s.LastError != "" })
			require.Contains(t, status.LastError, tc.wants)
			_, text := w.request("/", "localhost", nil)
			require.Equal(t, "second", text)
		})
	}
}

func handlerInGo(answers string) string {
	return "package handler\n\nimport \"io\"\nimport \"net/http\"\n\n" +
		"func Handle(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, " + answers + ") }\n"
}

// answered sends a request to the front port, and returns the text with the header about an older version.
func (w *fixture) answered() (text, older string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.Status()[0].URL, nil)
	require.NoError(w.t, err)
	answer, err := loopback.Default.Do(r)
	require.NoError(w.t, err)
	defer func() { _ = answer.Body.Close() }()
	content, err := io.ReadAll(answer.Body)
	require.NoError(w.t, err)
	text, _, _ = strings.Cut(string(content), " ")
	return text, answer.Header.Get(activation.HeaderOlder)
}

func TestAChangedVersionThatSleepsIsLoadedOnceAndItsErrorSaid(t *testing.T) {
	t.Parallel()
	w := run(t, Options{Backoff: time.Millisecond, MaxBackoff: time.Millisecond})
	w.Apply(set(function("serve v1", sleeps(0, 1))), nil)
	w.awaitPhase(Asleep)
	require.Zero(t, w.alive(), "what was there at the start is not loaded")

	w.Apply(set(function("crash", sleeps(0, 1))), nil)
	w.await("said", func(s Status) bool {
		return strings.HasPrefix(s.LastError, "orders/pricing.yaml:12: TypeError: no price (exit status 1)\n")
	})
	w.awaitLine("orders/pricing.yaml:12: TypeError: no price (exit status 1); it is started again when it is woken or changed")
	failed := w.awaitReplicas(0)
	require.Equal(t, 1, failed.Restarts, "it must be loaded once")
	require.Zero(t, failed.Wakes)

	w.Apply(set(function("serve v3", sleeps(0, 1))), nil)
	w.awaitLine("draining") // it was ready
	asleep := w.awaitReplicas(0)
	require.Empty(t, asleep.LastError)
	require.Equal(t, Asleep, asleep.Phase)
	require.Zero(t, asleep.Wakes)
}

func TestAFunctionThatIsWrittenMeanwhileIsLoadedOnce(t *testing.T) {
	t.Parallel()
	w := run(t, Options{})
	w.Apply(set(), nil)
	w.Apply(set(function("serve v1", sleeps(0, 1))), nil)
	w.awaitLine("draining") // it was ready
	w.awaitReplicas(0)
}

func TestAnOlderVersionThatAnswersSaysWhatIsWrongWithTheNewest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ role, want string }{
		"one that crashes":            {"crash", "orders/pricing.yaml:12: TypeError: no price (exit status 1)"},
		"one that cannot be prepared": {"unbuildable", "orders/pricing.yaml:1: InstallFailed: there is no package pandsa"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := run(t, Options{Backoff: time.Hour, MaxBackoff: time.Hour})
			w.Apply(set(function("serve v1", sleeps(1, 1))), nil)
			w.awaitReplicas(1)
			text, older := w.answered()
			require.Equal(t, "v1", text)
			require.Empty(t, older)

			w.Apply(set(function(tc.role, sleeps(1, 1))), nil)
			w.await("older", func(s Status) bool { return s.Older })
			text, older = w.answered()
			require.Equal(t, "v1", text)
			require.Equal(t, tc.want, older)

			w.Apply(set(function("serve v3", sleeps(1, 1))), nil)
			w.await("mended", func(s Status) bool { return s.Phase == Ready && s.LastError == "" && !s.Older })
			text, older = w.answered()
			require.Equal(t, "v3", text)
			require.Empty(t, older)
		})
	}
}

func TestAnErrorGoesWithItsVersionAlsoWhenTheOneBeforeComesBack(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{"crash", "unbuildable"} {
		t.Run(broken, func(t *testing.T) {
			t.Parallel()
			w := run(t, Options{Backoff: time.Hour, MaxBackoff: time.Hour})
			w.Apply(set(function("serve v1", sleeps(1, 1))), nil)
			w.awaitReplicas(1)
			w.Apply(set(function(broken, sleeps(1, 1))), nil)
			w.await("older", func(s Status) bool { return s.Older })
			w.Apply(set(function("serve v1", sleeps(1, 1))), nil)
			status := w.await("mended", func(s Status) bool { return s.LastError == "" })
			require.Equal(t, Ready, status.Phase)
			require.False(t, status.Older)
			w.awaitReplicas(1)
		})
	}
}
