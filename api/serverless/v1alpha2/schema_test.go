package v1alpha2_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/testing/envtest"
	"github.com/rouse-run/rouse/internal/testing/gitops"
)

func TestManifestsOfKymaAreAccepted(t *testing.T) {
	t.Parallel()
	namespace := cluster.Environment(t).Namespace(t)
	for _, file := range []string{"inline.yaml", "git.yaml", "deprecated.yaml"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			manifest, err := os.ReadFile(filepath.Join("testdata", file))
			require.NoError(t, err)
			object := envtest.Object(t, string(manifest))
			object.SetNamespace(namespace)

			stored, err := create(t, object)

			require.NoError(t, err)
			want, _, _ := unstructured.NestedMap(object.Object, "spec")
			got, _, _ := unstructured.NestedMap(stored.Object, "spec")
			if _, given := want["replicas"]; !given {
				want["replicas"] = int64(1)
			}
			require.Equal(t, want, got, "nothing may be lost or added")

			typed := &v1alpha2.Function{}
			require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(stored.Object, typed, true))
			back, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
			require.NoError(t, err)
			again, err := create(t, &unstructured.Unstructured{Object: withoutServerFields(back)})
			require.NoError(t, err, "what the Go types write must be accepted too")
			require.Equal(t, typed.Name, again.GetName())
		})
	}
}

// withoutServerFields makes an object fit for another creation.
func withoutServerFields(object map[string]any) map[string]any {
	metadata := object["metadata"].(map[string]any)
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"} {
		delete(metadata, field)
	}
	return object
}

func TestReplicasDefaultToOne(t *testing.T) {
	t.Parallel()
	namespace := cluster.Environment(t).Namespace(t)
	tests := map[string]struct {
		fields string
		want   int64
	}{
		"without replicas":  {`{}`, 1},
		"with null":         {`replicas: null`, 1},
		"zero is no gap":    {`replicas: 0`, 0},
		"with scale config": {`scaleConfig: {minReplicas: 0, maxReplicas: 3}`, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored, err := create(t, function(t, namespace, tc.fields))
			require.NoError(t, err)
			replicas, _, err := unstructured.NestedInt64(stored.Object, "spec", "replicas")
			require.NoError(t, err)
			require.Equal(t, tc.want, replicas)
		})
	}
}

func TestUnknownFieldsArePruned(t *testing.T) {
	t.Parallel()
	stored, err := create(t, function(t, cluster.Environment(t).Namespace(t), `
minReplicas: 1
source: {inline: {source: x, handler: y}}
resourceConfiguration: {function: {profile: S, preset: M}}
`))
	require.NoError(t, err)
	require.Equal(t, map[string]any{
		"runtime":               "nodejs22",
		"replicas":              int64(1),
		"source":                map[string]any{"inline": map[string]any{"source": "x"}},
		"resourceConfiguration": map[string]any{"function": map[string]any{"profile": "S"}},
	}, stored.Object["spec"])
}

func TestStatusIsASubresource(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	fn := &v1alpha2.Function{
		ObjectMeta: metav1.ObjectMeta{Name: "greet", Namespace: env.Namespace(t)},
		Spec: v1alpha2.FunctionSpec{
			Runtime: v1alpha2.RuntimeNodeJS24,
			Source:  v1alpha2.Source{Inline: &v1alpha2.InlineSource{Source: "x"}},
		},
		Status: v1alpha2.FunctionStatus{RuntimeImage: "ignored"},
	}
	require.NoError(t, env.Client.Create(t.Context(), fn))
	require.Equal(t, v1alpha2.FunctionStatus{ObservedGeneration: -1}, fn.Status, "creating must not write the status")
	gitops.RequireInProgress(t, fn)

	want := v1alpha2.FunctionStatus{
		ObservedGeneration: 1,
		Conditions: []metav1.Condition{{
			Type: v1alpha2.ConditionRunning, Status: metav1.ConditionTrue, Reason: v1alpha2.ReasonDeploymentReady,
			Message: "Deployment greet is ready", LastTransitionTime: metav1.Now().Rfc3339Copy(),
		}},
		Runtime:                  v1alpha2.RuntimeNodeJS24,
		RuntimeImage:             "example.com/nodejs24:1",
		Replicas:                 2,
		PodSelector:              "a=b",
		FunctionResourceProfile:  "L",
		ContainerSecurityContext: &corev1.SecurityContext{RunAsNonRoot: new(true)},
		PodSecurityContext:       &corev1.PodSecurityContext{FSGroup: ptr.To[int64](1000)},
		FunctionAnnotations:      map[string]string{"a": "b"},
		GitRepository:            &v1alpha2.GitRepositoryStatus{URL: "u", BaseDir: "/", Reference: "main", Commit: "c"},
		Commit:                   "c",
		BaseDir:                  "/",
		Reference:                "main",
	}
	fn.Status = *want.DeepCopy()
	fn.Spec.Replicas = ptr.To[int32](7)
	require.NoError(t, env.Client.Status().Update(t.Context(), fn))
	require.Equal(t, int32(1), *fn.Spec.Replicas, "the status must not write the spec")

	stored := &v1alpha2.Function{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(fn), stored))
	require.Empty(t, cmp.Diff(want, stored.Status))
}

func TestScaleSubresource(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	object := function(t, env.Namespace(t), `replicas: 3`)
	require.NoError(t, env.Client.Create(t.Context(), object))
	fn := &v1alpha2.Function{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(object), fn))
	fn.Status.Replicas, fn.Status.PodSelector = 2, "app=greet"
	require.NoError(t, env.Client.Status().Update(t.Context(), fn))

	scale := &autoscalingv1.Scale{}
	require.NoError(t, env.Client.SubResource("scale").Get(t.Context(), fn, scale))
	require.Equal(t, int32(3), scale.Spec.Replicas)
	require.Equal(t, autoscalingv1.ScaleStatus{Replicas: 2, Selector: "app=greet"}, scale.Status)

	scale.Spec.Replicas = 0
	require.NoError(t, env.Client.SubResource("scale").Update(t.Context(), fn, client.WithSubResourceBody(scale)))
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(fn), fn))
	require.Equal(t, int32(0), *fn.Spec.Replicas)

	scale.Spec.Replicas, scale.ResourceVersion = -1, ""
	err := env.Client.SubResource("scale").Update(t.Context(), fn, client.WithSubResourceBody(scale))
	require.ErrorContains(t, err, "spec.replicas")
}

func TestPrinterColumns(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)
	object := function(t, env.Namespace(t), `runtime: python312`)
	require.NoError(t, env.Client.Create(t.Context(), object))
	fn := &v1alpha2.Function{}
	require.NoError(t, env.Client.Get(t.Context(), client.ObjectKeyFromObject(object), fn))
	fn.Status.Conditions = []metav1.Condition{
		{Type: v1alpha2.ConditionRunning, Status: "Unknown", Reason: v1alpha2.ReasonDeploymentWaiting, LastTransitionTime: metav1.Now()},
		{Type: v1alpha2.ConditionBuildReady, Status: "False", Reason: v1alpha2.ReasonJobFailed, LastTransitionTime: metav1.Now()},
		{Type: v1alpha2.ConditionConfigurationReady, Status: "True", Reason: v1alpha2.ReasonSpecValidated, LastTransitionTime: metav1.Now()},
	}
	require.NoError(t, env.Client.Status().Update(t.Context(), fn))

	table := env.Table(t, v1alpha2.GroupVersion.WithResource("functions"), fn.Namespace)

	columns := map[string]string{}
	var names []string
	for _, column := range table.ColumnDefinitions {
		names = append(names, column.Name)
		columns[column.Name] = column.Type
	}
	require.Equal(t, []string{"Name", "Configured", "Built", "Running", "Runtime", "Version", "Age"}, names)
	require.Equal(t, "integer", columns["Version"])
	require.Len(t, table.Rows, 1)
	require.Equal(t, []any{fn.Name, "True", "False", "Unknown", "python312", float64(1)}, table.Rows[0].Cells[:6])
}

func TestNamesOfTheResource(t *testing.T) {
	t.Parallel()
	env := cluster.Environment(t)

	resource := env.Resource(t, v1alpha2.GroupVersion.WithResource("functions"))
	require.Equal(t, "Function", resource.Kind)
	require.Equal(t, "function", resource.SingularName)
	require.Equal(t, []string{"fn", "fns"}, resource.ShortNames)
	require.Equal(t, []string{"all"}, resource.Categories)
	require.True(t, resource.Namespaced)
	require.Equal(t, "Scale", env.Resource(t, v1alpha2.GroupVersion.WithResource("functions/scale")).Kind)
	require.Equal(t, "Function", env.Resource(t, v1alpha2.GroupVersion.WithResource("functions/status")).Kind)
}
