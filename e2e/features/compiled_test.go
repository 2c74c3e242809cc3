//go:build e2e

package features

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/framework"
)

const goRuntime = "go126"

func TestACompiledFunctionSleepsAtZeroWakesOnAnEventAndEmits(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	require.NoError(t, cluster.StartLedger(t.Context(), namespace))
	function := framework.Function{Name: "compiled", Runtime: goRuntime, Max: 1, ReadOnlyRoot: true, Source: framework.ReportingHandlerInGo}
	sleeper(t, cluster, namespace, "compiled.wake.v1", function)
	require.NotEmpty(t, imageOf(t, cluster, namespace, "compiled"), "it is built, although it depends on nothing")

	published := time.Now()
	keys := publishMany(t, cluster, "compiled.wake.v1", "compiled", 3)
	entries, err := cluster.AwaitLedger(t.Context(), namespace, keys, time.Minute)
	require.NoError(t, err)
	t.Logf("the handler began %s after the publish", time.UnixMilli(int64(entries[keys[0]].At)).Sub(published).Round(time.Millisecond))
	require.NoError(t, cluster.AwaitReplicas(t.Context(), namespace, "compiled", 0, asleep))
}

func TestACompiledFunctionAnswersWithItsModules(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	function := framework.Function{
		Name: "uuid", Runtime: goRuntime, Dependencies: "require github.com/google/uuid v1.6.0\n",
		Source: `package handler

import (
	"io"
	"net/http"

	"github.com/google/uuid"
)

func Handle(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "uuid "+uuid.Nil.String()) }
`,
	}
	require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	require.NoError(t, awaitBuilt(t.Context(), cluster, namespace, "uuid"))
	require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, "uuid", "uuid 00000000-0000-0000-0000-000000000000", 30*time.Second))
}

func TestASourceThatDoesNotCompileIsReportedWithItsLine(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	for name, source := range map[string]string{
		"unknown-name": "package handler\n\nimport \"net/http\"\n\nfunc Handle(w http.ResponseWriter, r *http.Request) { missing(w, r) }\n",
		"no-handle":    "package handler\n\nfunc Main() {}\n",
	} {
		function := framework.Function{Name: name, Runtime: goRuntime, Source: source}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	}
	requireFailure(t, cluster, namespace, "unknown-name", "BuildReady", "handler.go:5:55: undefined: missing")
	requireFailure(t, cluster, namespace, "no-handle", "BuildReady", "there is no func Handle in handler.go")
}
