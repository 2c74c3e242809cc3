package function

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/workload"
)

// replicaSet returns the ReplicaSet that the Deployment controller creates for code.
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

// codeOfSpec returns the code of the Function's own spec.
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
			wantMessage: fmt.Sprintf("Warning: serves version %s instead of %s, as the annotation rouse.run/rollback-to requests. "+
				"Remove it to return to the spec", second.Version(), "the spec's "+own.Version()),
		},
		"previous keeps its meaning after a rollback": {
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
			wantMessage: fmt.Sprintf(`The annotation rouse.run/rollback-to requests version "0000000000", which does not exist. `+
				"Set it to one of the earlier versions %s, %s (the newest first), or remove it", second.Version(), first.Version()),
		},
		"an unknown version without a history": {
			to: "0000000000", wantNothing: true, wantReason: "RollbackFailed", wantMessage: "There is no earlier version: remove the annotation",
		},
		"previous without a history": {
			to: "previous", history: []client.Object{replicaSet(fn, 1, own)}, wantNothing: true, wantReason: "RollbackFailed",
			wantMessage: "requests the previous version, but there is none. Remove the annotation",
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
	require.Equal(t, fmt.Sprintf("Warning: serves version %s instead of the spec's, as the annotation rouse.run/rollback-to requests. "+
		"Remove it to return to the spec", last.Version()), s.fn.Status.Conditions[0].Message)
	require.Equal(t, last.Version(), s.fn.Status.Version)
}

// keepRevision acts as the Deployment controller after a change.
func (w *fixture) keepRevision(deployment *appsv1.Deployment, revision int) {
	w.t.Helper()
	template := *deployment.Spec.Template.DeepCopy()
	require.NoError(w.t, w.Create(w.t.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: fmt.Sprintf("%s-%d", deployment.Name, revision), Labels: template.Labels,
			Annotations: map[string]string{annotationRevision: strconv.Itoa(revision)},
		},
		Spec: appsv1.ReplicaSetSpec{Selector: deployment.Spec.Selector, Template: template, Replicas: new(int32(0))},
	}))
}

func goesBackAndForward(w *fixture) {
	t := w.t
	fn := w.create()
	deployment := w.deployment(fn)
	w.keepRevision(deployment, 1)
	first := deployment.DeepCopy()

	source := func(text string) func(*v1alpha2.Function) {
		return func(fn *v1alpha2.Function) { fn.Spec.Source.Inline.Source = text }
	}
	version := func(d *appsv1.Deployment) string { return d.Spec.Template.Annotations[resources.AnnotationVersion] }
	update(w, fn, source("module.exports = { main: () => 'second' }"))
	await(w, deployment, "the second version is rolled out", func(d *appsv1.Deployment) bool { return version(d) != version(first) })
	w.keepRevision(deployment, 2)
	second := version(deployment)

	update(w, fn, rollbackTo(v1alpha2.RollbackPrevious))
	await(w, deployment, "the first version is back", func(d *appsv1.Deployment) bool { return version(d) == version(first) })
	require.Equal(t, first.Spec.Template, deployment.Spec.Template, "the ReplicaSet of the first version is used again")
	condition := w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionTrue, v1alpha2.ReasonRolledBack)
	require.Contains(t, condition.Message, fmt.Sprintf("serves version %s instead of the spec's %s", version(first), second))

	update(w, fn, func(fn *v1alpha2.Function) { fn.Spec.Env = []corev1.EnvVar{{Name: "A", Value: "b"}} })
	await(w, deployment, "the environment is the spec's", func(d *appsv1.Deployment) bool {
		for _, variable := range d.Spec.Template.Spec.Containers[0].Env {
			if variable.Name == "A" {
				return version(d) == version(first)
			}
		}
		return false
	})

	update(w, fn, rollbackTo("0000000000"))
	condition = w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionFalse, v1alpha2.ReasonRollbackFailed)
	require.Contains(t, condition.Message, version(first))
	settle()
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment))
	require.Equal(t, version(first), version(deployment))

	update(w, fn, func(fn *v1alpha2.Function) { fn.Annotations = nil })
	await(w, deployment, "it goes forward", func(d *appsv1.Deployment) bool { return version(d) == second })
	w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionTrue, v1alpha2.ReasonSpecValidated)
}

func followsItsConfiguration(w *fixture) {
	t := w.t
	rates, token := configMap("rates", map[string]string{"eur": "1"}), secret("token", map[string]string{"value": "hush"})
	for _, object := range []client.Object{rates, token, secret("certificates", nil)} {
		object.SetNamespace(w.namespace)
		require.NoError(t, w.Create(t.Context(), object))
	}
	asks := w.create(follows)
	asksNot := w.create(uses, func(fn *v1alpha2.Function) { fn.Name = "other" })
	deployment, other := w.deployment(asks), w.deployment(asksNot)
	hash := func(d *appsv1.Deployment) string {
		return d.Spec.Template.Annotations[resources.AnnotationConfiguration]
	}
	before := hash(deployment)
	require.NotEmpty(t, before)
	require.Empty(t, hash(other))

	update(w, rates, func(config *corev1.ConfigMap) { config.Data["eur"] = "2" })
	await(w, deployment, "the ConfigMap is followed", func(d *appsv1.Deployment) bool { return hash(d) != before })
	before = hash(deployment)
	update(w, token, func(secret *corev1.Secret) { secret.Data["value"] = []byte("psst") })
	await(w, deployment, "the Secret is followed", func(d *appsv1.Deployment) bool { return hash(d) != before })

	generation := other.Generation
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(other), other))
	require.Equal(t, generation, other.Generation, "Functions without the annotation must not restart")
}

// scalesByTheSubresource tests the subresource that "kubectl scale", an HPA and a ScaledObject on the Function use.
func scalesByTheSubresource(w *fixture) {
	t := w.t
	fn := w.create()
	deployment := w.deployment(fn)
	read := func() *autoscalingv1.Scale {
		scale := &autoscalingv1.Scale{}
		require.NoError(t, w.SubResource("scale").Get(t.Context(), fn, scale))
		return scale
	}
	for _, count := range []int32{3, 0, 2} {
		w.eventually(func() error {
			scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: count}}
			return w.SubResource("scale").Update(t.Context(), fn, client.WithSubResourceBody(scale))
		})
		await(w, deployment, "the Deployment follows", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == count })
		updateStatus(w, deployment, func(d *appsv1.Deployment) { // under way, and not ready
			d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: count}
		})
		await(w, fn, "the number of pods is that of the moment", func(fn *v1alpha2.Function) bool { return fn.Status.Replicas == count })
		require.Equal(t, count, read().Status.Replicas)
		require.Equal(t, resources.PodSelector(fn), read().Status.Selector)
	}
}

func choosesAProfileByTheNodes(w *fixture) {
	t := w.t
	reader := cluster.Environment(t).Client
	for count, want := range map[int]string{0: "XS", 2: "XS", 3: "L"} {
		nodes := &corev1.NodeList{}
		for i := range count {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d-%d", count, i)}}
			require.NoError(t, reader.Create(t.Context(), node))
			nodes.Items = append(nodes.Items, *node)
		}
		profile, err := profileFor(t.Context(), reader)
		require.NoError(t, err)
		require.Equal(t, want, profile, "%d nodes", count)
		for i := range nodes.Items {
			require.NoError(t, reader.Delete(t.Context(), &nodes.Items[i]))
		}
	}
}

func TestPodsGetATokenWhenThePublisherRequiresOne(t *testing.T) {
	runManager(t, simultaneous, func(o *Options) { o.PublisherAudience = "rouse-eventbridge" })
	w := newFixture(t)
	deployment := w.deployment(w.create())
	pod := deployment.Spec.Template.Spec
	require.Len(t, pod.Volumes, 1)
	require.Equal(t, "rouse-eventbridge", pod.Volumes[0].Projected.Sources[0].ServiceAccountToken.Audience)
	require.Empty(t, pod.ServiceAccountName, "that of the namespace")
	require.False(t, *pod.AutomountServiceAccountToken)
	settle()
	require.EqualValues(t, 1, w.deployment(newFunction()).Generation, "defaults of the API server must not count as a change")
}
