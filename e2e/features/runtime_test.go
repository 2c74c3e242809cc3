//go:build e2e

package features

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/framework"
)

// One handler per style. It answers the version of its interpreter, so that the log has the versions that really ran.
var handlers = map[string]string{
	"nodejs22":  "module.exports.main = function (event, context) { return 'node ' + process.version }",
	"nodejs26":  "module.exports.main = function (req, res) { res.send('node ' + process.version) }",
	"python312": "import sys\ndef main(event, context):\n    return 'python ' + sys.version.split()[0]\n",
	"python314": "import sys\ndef main():\n    return 'python ' + sys.version.split()[0]\n",
	goRuntime: "package handler\n\nimport (\n\t\"context\"\n\t\"runtime\"\n\n\t\"github.com/rouse-run/rouse/runtimes/golang/function\"\n)\n\n" +
		"func Handle(context.Context, function.Event) (any, error) { return function.Runtime() + \" \" + runtime.Version(), nil }\n",
}

func TestEveryRuntimeAnswers(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	for runtime, source := range handlers {
		function := framework.Function{Name: runtime, Runtime: runtime, Source: source}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	}
	for runtime := range handlers {
		t.Run(runtime, func(t *testing.T) {
			require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, runtime, "Running", "True", 2*time.Minute))
			var answer string
			require.NoError(t, framework.Await(t.Context(), 30*time.Second, "an answer", func(ctx context.Context) (bool, error) {
				status, text, err := cluster.Request(ctx, http.MethodGet, namespace, runtime, "", nil, nil)
				if err == nil && status != http.StatusOK {
					err = fmt.Errorf("status %d: %s", status, text)
				}
				answer = text
				return err == nil, err
			}))
			require.Contains(t, answer, runtime[:4])
			require.True(t, strings.HasPrefix(digits(answer), digits(runtime)), "%s answers: %s", runtime, answer)
			t.Logf("%s answers: %s", runtime, answer)
		})
	}
}

// digits are all that a runtime's name has of a version: 312 of 3.12.1.
func digits(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return r
		}
		return -1
	}, text)
}

func TestAHandlerThatDoesNotLoadIsReportedWithItsError(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	for runtime, source := range map[string]string{
		"nodejs22":  "const broken = ;",
		"python312": "import nowhere_to_be_found\n",
	} {
		function := framework.Function{Name: "broken-" + runtime, Runtime: runtime, Source: source}
		require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, function.YAML()))
	}
	for runtime, want := range map[string]string{"nodejs22": "SyntaxError", "python312": "nowhere_to_be_found"} {
		t.Run(runtime, func(t *testing.T) {
			require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, "broken-"+runtime, "Running", "False", 2*time.Minute))
			conditions, err := cluster.Conditions(t.Context(), namespace, framework.FunctionGVK, "broken-"+runtime)
			require.NoError(t, err)
			require.Equal(t, "HandlerFailed", conditions["Running"].Reason)
			require.Contains(t, conditions["Running"].Message, want)
			t.Log(conditions["Running"].Message)
		})
	}
}
