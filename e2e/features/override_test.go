//go:build e2e

package features

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rouse-run/rouse/e2e/framework"
)

// A pod of Kyma's contract runs under the restricted level with a read-only root. The image has a shell, an interpreter
// and a server: the runtime's own, in the role of a foreign one.
func TestAnImageRunsByKymasContract(t *testing.T) {
	t.Parallel()
	cluster, namespace := connect(t)
	for runtime, source := range map[string]string{
		"nodejs22":  "module.exports.main = () => '$$ $(FUNC_NAME)'",
		"python312": "def main(event, context):\n    return '$$ $(FUNC_NAME)'\n",
	} {
		t.Run(runtime, func(t *testing.T) {
			own := framework.Function{Name: "own-" + runtime, Runtime: runtime, Source: source}
			require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, own.YAML()))
			require.NoError(t, cluster.AwaitCondition(t.Context(), namespace, framework.FunctionGVK, own.Name, "Running", "True", 2*time.Minute))
			function, err := cluster.Function(t.Context(), namespace, own.Name)
			require.NoError(t, err)
			image, _, err := unstructured.NestedString(function.Object, "status", "runtimeImage")
			require.NoError(t, err)

			kyma := framework.Function{
				Name: "kyma-" + runtime, Runtime: runtime, Source: source,
				Annotations: map[string]string{"rouse.run/runtime-contract": "kyma"}, Spec: map[string]any{"runtimeImageOverride": image},
			}
			require.NoError(t, cluster.ApplyYAML(t.Context(), namespace, kyma.YAML()))
			require.NoError(t, cluster.AwaitAnswer(t.Context(), namespace, kyma.Name, "$$ $(FUNC_NAME)", 2*time.Minute))
		})
	}
}
