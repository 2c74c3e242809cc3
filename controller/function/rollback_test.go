package function

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/workload"
)

// replicaSet is what the Deployment controller makes of code.
func replicaSet(fn *v1alpha2.Function, revision int, code resources.Code) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fn.Namespace, Name: fmt.Sprintf("%s-%d", fn.Name, revision), Labels: resources.SelectorLabels(fn),
			Annotations: map[string]string{annotationRevision: strconv.Itoa(revision)},
		},
		Spec: appsv1.ReplicaSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: resources.SelectorLabels(fn)},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels:      resources.SelectorLabels(fn),
					Annotations: map[string]string{resources.AnnotationVersion: code.Version()},
				},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: resources.ContainerName, Image: code.Image,
					Env: []corev1.EnvVar{
						{Name: "FUNC_RUNTIME", Value: string(code.Runtime)},
						{Name: workload.EnvHandlerSource, Value: code.Source},
					},
				}}},
			},
		},
	}
}

func rollbackTo(version string) func(*v1alpha2.Function) {
	return func(fn *v1alpha2.Function) {
		fn.Annotations = map[string]string{v1alpha2.AnnotationRollbackTo: version}
	}
}

// codeOfSpec is what the Function's own spec runs.
func codeOfSpec(t *testing.T, fn *v1alpha2.Function) resources.Code {
	t.Helper()
	options := testOptions()
	image := resources.Image(fn, options.settings())
	found, err := supplyOf(fn, image, nil)
	require.NoError(t, err)
	return resources.Code{Image: image, Source: found.source, Runtime: fn.Spec.Runtime}
}

func TestRollback(t *testing.T) {
	t.Parallel()
	fn := newFunction()
	own := codeOfSpec(t, fn)
	first := resources.Code{Image: "runtime-nodejs22:0", Source: "Zmlyc3Q=", Runtime: "nodejs22"}
	second := resources.Code{Image: "registry/shop-price@sha256:2", Runtime: "python312"}
	stranger := replicaSet(fn, 9, resources.Code{Image: "stranger", Runtime: "nodejs22"})
	stranger.Labels = map[string]string{v1alpha2.LabelManagedBy: v1alpha2.ManagedBy}
	unversioned := replicaSet(fn, 8, resources.Code{Image: "unversioned", Runtime: "nodejs22"})
	delete(unversioned.Spec.Template.Annotations, resources.AnnotationVersion)
	history := []client.Object{replicaSet(fn, 1, first), replicaSet(fn, 2, second), replicaSet(fn, 3, own), stranger, unversioned}

	tests := map[string]struct {
		to          string
		history     []client.Object
		want        resources.Code
		wantReason  string
		wantMessage string
		wantNothing bool
	}{
		"without the annotation the spec is served": {history: history, want: own, wantReason: "FunctionSpecValidated"},
		"the spec's own version is no rollback":     {to: own.Version(), history: history, want: own, wantReason: "FunctionSpecValidated"},
		"previous is the newest other version": {
			to: "previous", history: history, want: second, wantReason: "RolledBack",
			wantMessage: fmt.Sprintf("Warning: serves version %s instead of %s, as the annotation rouse.run/rollback-to asks. "+
				"Remove it to go forward", second.Version(), "the spec's "+own.Version()),
		},
		"previous stays what it is once it serves": {
			to: "previous", history: []client.Object{replicaSet(fn, 1, first), replicaSet(fn, 4, second), replicaSet(fn, 3, own)},
			want: second, wantReason: "RolledBack",
		},
		"previous is by number and not by letter": {
			to: "previous", history: []client.Object{replicaSet(fn, 9, first), replicaSet(fn, 10, second)},
			want: second, wantReason: "RolledBack",
		},
		"a version is found by its name": {to: first.Version(), history: history, want: first, wantReason: "RolledBack"},
		"an unknown version lists those that exist": {
			to: "0000000000", history: history, wantNothing: true, wantReason: "RollbackFailed",
			wantMessage: fmt.Sprintf(`The annotation rouse.run/rollback-to asks for version "0000000000", which does not exist. `+
				"Set it to one of the earlier versions %s, %s (the newest first), or remove it", second.Version(), first.Version()),
		},
		"an unknown version without a history": {
			to: "0000000000", wantNothing: true, wantReason: "RollbackFailed", wantMessage: "There is no earlier version: remove the annotation",
		},
		"previous without a history": {
			to: "previous", history: []client.Object{replicaSet(fn, 1, own)}, wantNothing: true, wantReason: "RollbackFailed",
			wantMessage: "asks for the previous version, but there is none. Remove the annotation",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes := []func(*v1alpha2.Function){func(*v1alpha2.Function) {}}
			if tc.to != "" {
				changes = append(changes, rollbackTo(tc.to))
			}
			objects := make([]client.Object, 0, len(tc.history)+1)
			for _, set := range tc.history {
				objects = append(objects, set.DeepCopyObject().(client.Object))
			}
			b := newBench(t, false, append(objects, newFunction(changes...))...)
			_, err := b.reconcile()
			require.Equal(t, tc.wantNothing, err != nil, "%v", err)
			condition := meta.FindStatusCondition(b.function().Status.Conditions, v1alpha2.ConditionConfigurationReady)
			require.NotNil(t, condition)
			require.Equal(t, tc.wantReason, condition.Reason)
			require.Contains(t, condition.Message, tc.wantMessage)
			if tc.wantNothing {
				require.Zero(t, b.applies, "the Deployment is left as it is")
				return
			}
			deployment := &appsv1.Deployment{}
			require.NoError(t, b.client.Get(t.Context(), client.ObjectKeyFromObject(fn), deployment))
			got, ok := resources.CodeOf(&deployment.Spec.Template)
			require.True(t, ok)
			require.Equal(t, tc.want.Version(), got.Version())
			require.Equal(t, tc.want.Image, got.Image)
			require.Equal(t, tc.want.Source, got.Source)
			require.Equal(t, tc.want.Runtime, got.Runtime)
		})
	}
}

func TestARollbackNeedsNoVersionOfTheSpec(t *testing.T) {
	t.Parallel()
	fn := newFunction(rollbackTo(v1alpha2.RollbackPrevious))
	last := resources.Code{Image: "registry/shop-price@sha256:1", Runtime: "nodejs22"}
	b := newBench(t, false, replicaSet(fn, 1, last))
	s := newScope(func(s *scope) { s.fn, s.code = fn, resources.Code{} }) // its image is not built
	require.NoError(t, b.rollBack(t.Context(), s))
	require.Equal(t, last.Image, s.code.Image)
	setStatus(s)
	require.Equal(t, fmt.Sprintf("Warning: serves version %s instead of the spec's, as the annotation rouse.run/rollback-to asks. "+
		"Remove it to go forward", last.Version()), s.fn.Status.Conditions[0].Message)
	require.Equal(t, last.Version(), s.fn.Status.Version)
}
