package function

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/buildqueue"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/controller/images"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/registry"
	"github.com/rouse-run/rouse/internal/testing/registrytest"
)

// registryOptions let namespaces name registries on this machine.
func registryOptions() images.RegistryOptions {
	return images.RegistryOptions{ReleaseNamespace: releaseNamespace, Guard: dialguard.Guard{AllowLoopback: true}}
}

// buildLimits leave the slots to one namespace.
func buildLimits(total int) buildqueue.Limits {
	return buildqueue.Limits{Total: total, PerNamespace: total, Longest: time.Hour}
}

// useRegistry lets the Functions of the namespace be kept in a registry.
func (w *fixture) useRegistry(server *registrytest.Registry) *corev1.Secret {
	w.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: v1alpha2.RegistrySecret,
			Labels: map[string]string{v1alpha2.LabelRemoteRegistry: v1alpha2.RemoteRegistryConfig},
		},
		Data: map[string][]byte{
			"username": []byte("builder"), "password": []byte("secret"),
			"serverAddress": []byte(server.Host), "registryAddress": []byte(server.Host), "insecure": []byte("true"),
		},
	}
	require.NoError(w.t, w.Create(w.t.Context(), secret))
	return secret
}

// repository is that of the Function price.
func (w *fixture) repository() string {
	w.t.Helper()
	namespace := &corev1.Namespace{}
	require.NoError(w.t, w.Get(w.t.Context(), client.ObjectKey{Name: w.namespace}, namespace))
	return registry.Tenant{Namespace: w.namespace, UID: string(namespace.UID)}.Repository("price")
}

// jobs lists the builds of a Function.
func (w *fixture) jobs(fn *v1alpha2.Function) []batchv1.Job {
	w.t.Helper()
	list := &batchv1.JobList{}
	require.NoError(w.t, w.List(w.t.Context(), list, client.InNamespace(w.namespace), client.MatchingLabels(resources.JobLabels(fn))))
	return list.Items
}

// awaitJob waits for a build that has not ended and is none of those before.
func (w *fixture) awaitJob(fn *v1alpha2.Function, before ...*batchv1.Job) *batchv1.Job {
	w.t.Helper()
	var found *batchv1.Job
	require.Eventually(w.t, func() bool {
		for _, job := range w.jobs(fn) {
			known := len(job.Status.Conditions) > 0
			for _, other := range before {
				known = known || other.UID == job.UID
			}
			if !known {
				found = &job
			}
		}
		return found != nil
	}, timeout, tick, "no build begins")
	return found
}

// end does what the kubelet does when the builder has ended and, unless it has succeeded, what the Job controller
// does. A success is to be seen before the Job controller does.
func (w *fixture) end(job *batchv1.Job, result buildplan.Result, when time.Time) {
	w.t.Helper()
	message, err := buildplan.EncodeResult(result)
	require.NoError(w.t, err)
	code, phase := int32(0), corev1.PodRunning
	if result.Reason != "" {
		code, phase = 1, corev1.PodFailed
	}
	labels := map[string]string{batchv1.JobNameLabel: job.Name}
	maps.Copy(labels, job.Spec.Template.Labels)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, GenerateName: "build-", Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: resources.PushContainerName, Image: "i"}}},
	}
	require.NoError(w.t, w.Create(w.t.Context(), pod))
	updateStatus(w, pod, func(pod *corev1.Pod) {
		pod.Status.Phase = phase
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name:  resources.PushContainerName,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Message: string(message)}},
		}}
	})
	if result.Reason == "" {
		return
	}
	updateStatus(w, job, func(job *batchv1.Job) {
		job.Status.StartTime = &metav1.Time{Time: when.Add(-time.Second)}
		for _, kind := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
			job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
				Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(when),
			})
		}
	})
}

// push does what the builder does.
func push(t *testing.T, target string) (digest string) {
	t.Helper()
	image, err := random.Image(10, 1)
	require.NoError(t, err)
	reference, err := name.ParseReference(target, name.Insecure)
	require.NoError(t, err)
	require.NoError(t, remote.Write(reference, image, remote.WithContext(t.Context())))
	hash, err := image.Digest()
	require.NoError(t, err)
	return hash.String()
}

// target is the image that a build is to push.
func target(job *batchv1.Job) string { return job.Annotations[annotationTarget] }

// awaitImage waits until the Deployment runs an image.
func (w *fixture) awaitImage(fn *v1alpha2.Function, image string) *appsv1.Deployment {
	w.t.Helper()
	deployment := w.deployment(fn)
	await(w, deployment, "the Deployment runs "+image, func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Spec.Containers[0].Image == image
	})
	return deployment
}

// roll lets the Deployment become ready.
func (w *fixture) roll(deployment *appsv1.Deployment) {
	w.t.Helper()
	updateStatus(w, deployment, func(d *appsv1.Deployment) {
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: 1, ReadyReplicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1,
			Conditions: []appsv1.DeploymentCondition{
				{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: reasonReplicasAvailable},
				{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: reasonRolloutDone},
			},
		}
	})
}
