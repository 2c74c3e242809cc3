package gitops_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	gatewayv2 "github.com/rouse-run/rouse/api/gateway/v2"
	serverlessv1alpha2 "github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/testing/gitops"
)

func TestEveryKindHasTheSameScript(t *testing.T) {
	t.Parallel()
	scripts, err := gitops.Scripts()
	require.NoError(t, err)
	require.Len(t, scripts, len(gitops.Kinds()))
	for _, kind := range gitops.Kinds() {
		require.Contains(t, scripts, kind)
		require.Equal(t, scripts[gitops.Kinds()[0]], scripts[kind])
	}
}

func TestKustomizationOfThePageNamesExistingKinds(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/gitops.md")
	require.NoError(t, err)
	blocks := gitops.Blocks(string(page))
	kustomization := blocks[slices.IndexFunc(blocks, func(block string) bool { return strings.Contains(block, "kind: Kustomization") })]
	var parsed struct {
		Spec struct {
			HealthChecks []struct{ APIVersion, Kind string }
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(kustomization), &parsed))
	require.Equal(t, []struct{ APIVersion, Kind string }{
		{serverlessv1alpha2.GroupVersion.String(), "Function"},
		{eventingv1alpha2.GroupVersion.String(), "Subscription"},
		{gatewayv2.GroupVersion.String(), "APIRule"},
	}, parsed.Spec.HealthChecks)
}

func TestBothToolsReportTheSameHealth(t *testing.T) {
	t.Parallel()
	const conditions = "conditions: [{type: Running, status: 'True'}, "
	for name, tc := range map[string]struct {
		status        string
		kstatus, argo string
		message       string
	}{
		"an object that the controller has not observed": {`{observedGeneration: -1}`, "InProgress", "Progressing", "has not seen it"},
		"a spec that the controller has not observed":    {`{observedGeneration: 1, ` + conditions + `{type: Ready, status: 'True'}]}`, "InProgress", "Progressing", "has not seen it"},
		"a ready object":                              {`{observedGeneration: 2, ` + conditions + `{type: Ready, status: 'True', message: fine}]}`, "Current", "Healthy", "fine"},
		"an object in progress":                       {`{observedGeneration: 2, ` + conditions + `{type: Ready, status: Unknown, message: soon}]}`, "InProgress", "Progressing", "soon"},
		"an object with a missing dependency":         {`{observedGeneration: 2, ` + conditions + `{type: Ready, status: 'False', message: gone}]}`, "InProgress", "Progressing", "gone"},
		"an object that a user has to correct":        {`{observedGeneration: 2, ` + conditions + `{type: Ready, status: 'False', message: wrong}, {type: Stalled, status: 'True', message: wrong}]}`, "Failed", "Degraded", "wrong"},
		"a corrected spec that has not been observed": {`{observedGeneration: 1, ` + conditions + `{type: Stalled, status: 'True', message: wrong}]}`, "InProgress", "Progressing", "has not seen it"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := &unstructured.Unstructured{}
			require.NoError(t, yaml.Unmarshal([]byte(`{apiVersion: a/v1, kind: A, metadata: {name: a, generation: 2}, status: `+tc.status+`}`), object))
			health, message := gitops.HealthOf(t, object)
			require.Equal(t, gitops.Health{Kstatus: tc.kstatus, Argo: tc.argo}, health)
			require.Contains(t, message, tc.message)
		})
	}
}

func TestArgoReportsAnObjectWithoutStatusAsNotHealthy(t *testing.T) {
	t.Parallel()
	object := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"generation": int64(1)}}}
	health, _ := gitops.HealthOf(t, object)
	require.Equal(t, "Progressing", health.Argo)
}
