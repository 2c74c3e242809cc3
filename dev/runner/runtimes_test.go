package runner

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/dev/toolchain"
)

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
