package function

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

func (w *fixture) deployment(fn *v1alpha2.Function) *appsv1.Deployment {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: fn.Name}}
	await(w, deployment, "the Deployment exists", func(*appsv1.Deployment) bool { return true })
	return deployment
}

func (w *fixture) service(fn *v1alpha2.Function) *corev1.Service {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: fn.Name}}
	await(w, service, "the Service exists", func(*corev1.Service) bool { return true })
	return service
}

func (w *fixture) scaledObject(fn *v1alpha2.Function) *unstructured.Unstructured {
	object := scaledObject()
	object.SetNamespace(w.namespace)
	object.SetName(fn.Name)
	await(w, object, "the ScaledObject exists", func(*unstructured.Unstructured) bool { return true })
	return object
}

func (w *fixture) awaitGone(object client.Object, uid string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		err := w.Get(w.t.Context(), client.ObjectKeyFromObject(object), object)
		return apierrors.IsNotFound(err) || err == nil && string(object.GetUID()) != uid
	}, timeout, tick, "%T %s is still there", object, object.GetName())
}

// scale writes the scale subresource like an autoscaler.
func (w *fixture) scale(deployment *appsv1.Deployment, count int32) {
	w.t.Helper()
	w.eventually(func() error {
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: count}}
		return w.SubResource("scale").Update(w.t.Context(), deployment, client.WithSubResourceBody(scale))
	})
}

// settle waits long enough for a faulty controller to write.
func settle() { <-time.After(time.Second) }

func TestFunctionsOnARealAPIServer(t *testing.T) {
	runManager(t, simultaneous)
	t.Run("the removal and installation of KEDA is noticed", func(t *testing.T) {
		kedaGoesAndComes(newFixture(t)) // not parallel: it affects all Functions
	})
	for name, test := range map[string]func(*fixture){
		"a Function becomes a Deployment and a Service":        creates,
		"replicas belong to the autoscaler with a scaleConfig": leavesReplicas,
		"manual changes are reverted at once":                  repairs,
		"foreign annotations of the template stay":             keepsAdditions,
		"objects of others are left alone":                     leavesForeignObjects,
		"the status follows the Deployment and its pods":       reportsWorkload,
		"an invalid spec changes nothing":                      refusesInvalidSpec,
		"a rejected pod is explained":                          explainsRefusedPod,
		"an earlier version comes back on request":             goesBackAndForward,
		"pods follow a ConfigMap and a Secret when asked":      followsItsConfiguration,
		"an autoscaler of the Function scales the Deployment":  scalesByTheSubresource,
		"the default profile follows the number of nodes":      choosesAProfileByTheNodes,
		"an autoscaler beside the scaleConfig is noticed":      noticesAnotherAutoscaler,
		"a committed Function becomes current without drift":   obeysGit,
		"fields that a binding runtime projects stay":          keepsBindings,
		"fields that its webhook projects stay":                keepsBindingsOfAWebhook,
		"fields that its webhook removed are restored":         restoresWhatAWebhookTookOut,
		"a field that a binding also claims is rejected":       refusesWhatABindingClaims,
		"pods follow a bound Secret when asked":                followsBoundSecrets,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newFixture(t))
		})
	}
}

func kedaGoesAndComes(w *fixture) {
	t := w.t
	fn := w.create(scaled(0, 5))
	object := w.scaledObject(fn)
	deployment := w.deployment(fn)
	w.scale(deployment, 0)

	definition := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: kube.ScaledObjectCRD}}
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(definition), definition))
	again := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: kube.ScaledObjectCRD, Annotations: definition.Annotations},
		Spec:       definition.Spec,
	}
	require.NoError(t, w.Delete(t.Context(), definition))

	condition := w.awaitCondition(fn, v1alpha2.ConditionScaling, metav1.ConditionFalse, v1alpha2.ReasonKedaNotInstalled)
	require.Contains(t, condition.Message, "keeps 1 to 5 replicas by CPU use")
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: fn.Name}}
	await(w, hpa, "an HPA stands in", func(hpa *autoscalingv2.HorizontalPodAutoscaler) bool {
		return ptr.Deref(hpa.Spec.MinReplicas, 0) == 1 && hpa.Spec.MaxReplicas == 5
	})
	await(w, deployment, "without an autoscaler the Function is awake", func(d *appsv1.Deployment) bool {
		return ptr.Deref(d.Spec.Replicas, 0) == 1
	})

	w.awaitGone(definition, string(definition.UID))
	require.NoError(t, w.Create(t.Context(), again))
	w.awaitGone(object, string(object.GetUID()))
	w.scaledObject(fn)
	w.awaitCondition(fn, v1alpha2.ConditionScaling, metav1.ConditionUnknown, v1alpha2.ReasonScaledObjectWaiting)
	w.awaitGone(hpa, string(hpa.UID))
	settle()
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment))
	require.Equal(t, int32(1), *deployment.Spec.Replicas)
}

func creates(w *fixture) {
	t := w.t
	fn := w.create()
	deployment, service := w.deployment(fn), w.service(fn)

	for _, object := range []client.Object{deployment, service} {
		require.True(t, metav1.IsControlledBy(object, fn), "%T is not owned", object)
		require.Equal(t, fn.Name, object.GetLabels()[v1alpha2.LabelFunctionName])
	}
	require.Equal(t, int32(1), *deployment.Spec.Replicas)
	require.Equal(t, resources.SelectorLabels(fn), service.Spec.Selector)
	w.awaitCondition(fn, v1alpha2.ConditionRunning, metav1.ConditionUnknown, v1alpha2.ReasonDeploymentCreated)
	w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionTrue, v1alpha2.ReasonSpecValidated)
	require.Equal(t, resources.PodSelector(fn), fn.Status.PodSelector)

	update(w, fn, func(fn *v1alpha2.Function) { fn.Spec.Replicas = ptr.To[int32](3) })
	await(w, deployment, "spec.replicas reaches the Deployment", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 3 })
}

func leavesReplicas(w *fixture) {
	t := w.t
	fn := w.create(replicas(4))
	deployment := w.deployment(fn)
	require.Equal(t, int32(4), *deployment.Spec.Replicas)

	update(w, fn, scaled(0, 5))
	object := w.scaledObject(fn)
	settle()
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment))
	require.Equal(t, int32(4), *deployment.Spec.Replicas, "the number of pods must not change when its owner does")

	w.scale(deployment, 0)
	update(w, fn, func(fn *v1alpha2.Function) { fn.Spec.Source.Inline.Source = "module.exports = { main: () => 'new' }" })
	template := deployment.Spec.Template.Annotations[resources.AnnotationTemplate]
	await(w, deployment, "the new code arrives", func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Annotations[resources.AnnotationTemplate] != template
	})
	require.Equal(t, int32(0), *deployment.Spec.Replicas, "new code must not wake a Function")

	update(w, fn, func(fn *v1alpha2.Function) { fn.Spec.ScaleConfig, fn.Spec.Replicas = nil, ptr.To[int32](1) })
	w.awaitGone(object, string(object.GetUID()))
	await(w, deployment, "the Function is awake", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 1 })
	await(w, fn, "the Scaling condition is removed", func(fn *v1alpha2.Function) bool {
		for _, condition := range fn.Status.Conditions {
			if condition.Type == v1alpha2.ConditionScaling {
				return false
			}
		}
		return true
	})
}

func repairs(w *fixture) {
	t := w.t
	fn := w.create(scaled(0, 5))
	deployment, service, object := w.deployment(fn), w.service(fn), w.scaledObject(fn)
	original := deployment.DeepCopy()

	update(w, deployment, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Image = "other"
		delete(d.Labels, v1alpha2.LabelManagedBy)
	})
	await(w, deployment, "image and label come back", func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Spec.Containers[0].Image == "runtime-nodejs22:1" && d.Labels[v1alpha2.LabelManagedBy] != ""
	})
	update(w, deployment, func(d *appsv1.Deployment) { d.OwnerReferences = nil })
	await(w, deployment, "the owner comes back", func(d *appsv1.Deployment) bool { return metav1.IsControlledBy(d, fn) })
	update(w, deployment, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Env = nil })
	await(w, deployment, "the environment comes back", func(d *appsv1.Deployment) bool {
		return len(d.Spec.Template.Spec.Containers[0].Env) == len(original.Spec.Template.Spec.Containers[0].Env)
	})
	update(w, service, func(s *corev1.Service) { s.Spec.Ports[0].TargetPort.IntVal = 1 })
	await(w, service, "the port comes back", func(s *corev1.Service) bool { return s.Spec.Ports[0].TargetPort.IntVal == resources.Port })
	update(w, object, func(o *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(o.Object, int64(99), "spec", "maxReplicaCount"))
	})
	await(w, object, "the maximum comes back", func(o *unstructured.Unstructured) bool {
		count, _, _ := unstructured.NestedInt64(o.Object, "spec", "maxReplicaCount")
		return count == 5
	})

	update(w, deployment, func(d *appsv1.Deployment) {
		pod := &d.Spec.Template.Spec
		pod.Containers[0].Env = append(pod.Containers[0].Env, corev1.EnvVar{Name: "ADDED", Value: "by hand"})
		pod.Containers[0].Command = []string{"sleep"}
		pod.Containers = append(pod.Containers, corev1.Container{Name: "added", Image: "i"})
		pod.TerminationGracePeriodSeconds = ptr.To[int64](5)
		pod.Containers[0].Lifecycle = nil
	})
	await(w, deployment, "the addition is removed", func(d *appsv1.Deployment) bool {
		pod := d.Spec.Template.Spec
		return len(pod.Containers) == 1 && len(pod.Containers[0].Command) == 0 && *pod.TerminationGracePeriodSeconds == 33 &&
			pod.Containers[0].Lifecycle != nil &&
			len(pod.Containers[0].Env) == len(original.Spec.Template.Spec.Containers[0].Env)
	})
	update(w, service, func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "added", Port: 99})
	})
	await(w, service, "an added port goes", func(s *corev1.Service) bool { return len(s.Spec.Ports) == 1 })
	update(w, object, func(o *unstructured.Unstructured) {
		require.NoError(t, unstructured.SetNestedField(o.Object, true, "spec", "advanced", "restoreToOriginalReplicaCount"))
	})
	await(w, object, "an added setting goes", func(o *unstructured.Unstructured) bool {
		_, found, _ := unstructured.NestedBool(o.Object, "spec", "advanced", "restoreToOriginalReplicaCount")
		return !found
	})

	for _, owned := range []client.Object{deployment, service, object} {
		uid := owned.GetUID()
		require.NoError(t, w.Delete(t.Context(), owned))
		await(w, owned, "a deleted object comes back", func(o client.Object) bool { return o.GetUID() != uid })
		require.True(t, metav1.IsControlledBy(owned, fn))
	}
}

func keepsAdditions(w *fixture) {
	t := w.t
	const restarted = "kubectl.kubernetes.io/restartedAt"
	fn := w.create(func(fn *v1alpha2.Function) { fn.Spec.Annotations = map[string]string{"mine": "1"} })
	deployment := w.deployment(fn)
	update(w, deployment, func(d *appsv1.Deployment) { d.Spec.Template.Annotations[restarted] = "now" })
	update(w, fn, func(fn *v1alpha2.Function) { fn.Spec.Annotations = map[string]string{"other": "2"} })
	await(w, deployment, "the new annotation arrives", func(d *appsv1.Deployment) bool { return d.Spec.Template.Annotations["other"] == "2" })
	require.Equal(t, "now", deployment.Spec.Template.Annotations[restarted])
	require.NotContains(t, deployment.Spec.Template.Annotations, "mine")
}

func leavesForeignObjects(w *fixture) {
	t := w.t
	foreign := map[string]client.Object{
		"deployment": &appsv1.Deployment{Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			},
		}},
		"service": &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}},
		"scaledobject": &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"scaleTargetRef": map[string]any{"name": "x"},
			"triggers":       []any{map[string]any{"type": "cpu", "metadata": map[string]any{"value": "1"}}},
		}}},
	}
	foreign["scaledobject"].(*unstructured.Unstructured).SetGroupVersionKind(resources.ScaledObjectKind())
	for name, object := range foreign {
		t.Run(name, func(t *testing.T) {
			object.SetNamespace(w.namespace)
			object.SetName(name)
			object.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "Helm"})
			object.SetAnnotations(map[string]string{"meta.helm.sh/release-name": "webshop"})
			require.NoError(t, w.Create(t.Context(), object))
			version := object.GetResourceVersion()

			fn := w.create(scaled(0, 1), func(fn *v1alpha2.Function) { fn.Name = name })
			condition := w.awaitCondition(fn, v1alpha2.ConditionRunning, metav1.ConditionFalse, v1alpha2.ReasonOwnedByOther)
			require.Contains(t, condition.Message, "belongs to Helm release webshop")
			settle()
			require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(object), object))
			require.Equal(t, version, object.GetResourceVersion(), "it was written to")
		})
	}
}

func reportsWorkload(w *fixture) {
	t := w.t
	fn := w.create(scaled(0, 5))
	deployment := w.deployment(fn)
	ready := func(count int32) func(*appsv1.Deployment) {
		return func(d *appsv1.Deployment) {
			d.Status = appsv1.DeploymentStatus{
				ObservedGeneration: d.Generation, Replicas: count, ReadyReplicas: count, AvailableReplicas: count, UpdatedReplicas: count,
				Conditions: []appsv1.DeploymentCondition{
					{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: reasonReplicasAvailable},
					{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: reasonRolloutDone},
				},
			}
		}
	}
	updateStatus(w, deployment, ready(2))
	w.awaitCondition(fn, v1alpha2.ConditionRunning, metav1.ConditionTrue, v1alpha2.ReasonDeploymentReady)
	require.Equal(t, int32(2), fn.Status.Replicas)
	require.Equal(t, "runtime-nodejs22:1", fn.Status.RuntimeImage)
	require.Equal(t, "L", fn.Status.FunctionResourceProfile)
	require.NotNil(t, fn.Status.PodSecurityContext)
	require.Equal(t, fn.Generation, fn.Status.ObservedGeneration)

	w.scale(deployment, 0)
	updateStatus(w, deployment, ready(0))
	await(w, fn, "it reports that it is asleep", func(fn *v1alpha2.Function) bool {
		return fn.Status.Replicas == 0 && fn.Status.Conditions[1].Message == "Deployment price is ready and sleeps at zero replicas"
	})
	w.awaitCondition(fn, v1alpha2.ConditionRunning, metav1.ConditionTrue, v1alpha2.ReasonDeploymentReady)

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: "pod", Labels: deployment.Spec.Template.Labels, Annotations: deployment.Spec.Template.Annotations,
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: resources.ContainerName, Image: "i"}}},
	}
	require.NoError(t, w.Create(t.Context(), pod))
	updateStatus(w, pod, func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name:                 resources.ContainerName,
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: "handler did not load: boom"}},
		}}
	})
	condition := w.awaitCondition(fn, v1alpha2.ConditionRunning, metav1.ConditionFalse, v1alpha2.ReasonHandlerFailed)
	require.Equal(t, "handler did not load: boom", condition.Message)

	require.NoError(t, w.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	settle()
	w.awaitCondition(fn, v1alpha2.ConditionRunning, metav1.ConditionFalse, v1alpha2.ReasonHandlerFailed)
}

func refusesInvalidSpec(w *fixture) {
	t := w.t
	fn := w.create()
	deployment := w.deployment(fn)
	version := deployment.ResourceVersion
	update(w, fn, func(fn *v1alpha2.Function) { fn.Spec.Source.Inline.Dependencies = `{"dependencies":{"left-pad" "1"}}` })
	condition := w.awaitCondition(fn, v1alpha2.ConditionConfigurationReady, metav1.ConditionFalse, v1alpha2.ReasonInvalidSpec)
	require.Contains(t, condition.Message, "line 1, column 29")
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment))
	require.Equal(t, version, deployment.ResourceVersion)
	require.NotEmpty(t, deployment.UID)
}

func explainsRefusedPod(w *fixture) {
	fn := w.create(func(fn *v1alpha2.Function) {
		fn.Spec.ContainerSecurityContext = &corev1.SecurityContext{Privileged: new(true), AllowPrivilegeEscalation: new(false)}
	})
	condition := w.awaitCondition(fn, v1alpha2.ConditionRunning, metav1.ConditionFalse, v1alpha2.ReasonDeploymentFailed)
	require.Contains(w.t, condition.Message, "allowPrivilegeEscalation")
}
