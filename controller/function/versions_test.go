package function

import (
	"fmt"
	"strconv"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
)

// keepRevision does what the Deployment controller does after a change.
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
	require.Equal(t, generation, other.Generation, "who does not ask is not restarted")
}

// scalesByTheSubresource is what "kubectl scale", an HPA and a ScaledObject on
// the Function do.
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
