package function

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/buildqueue"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/controller/images"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/dialguard"
	"github.com/rouse-run/rouse/internal/registry"
	"github.com/rouse-run/rouse/internal/testing/registrytest"
	"github.com/rouse-run/rouse/internal/workload"
	"github.com/rouse-run/rouse/runtimes/language"
)

// registryOptions allow namespaces to use registries on this machine.
func registryOptions() images.RegistryOptions {
	return images.RegistryOptions{ReleaseNamespace: releaseNamespace, Guard: dialguard.Guard{AllowLoopback: true}}
}

// buildLimits allow one namespace to use all slots.
func buildLimits(total int) buildqueue.Limits {
	return buildqueue.Limits{Total: total, PerNamespace: total, Longest: time.Hour}
}

// useRegistry configures a registry for the Functions of the namespace.
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

// repository returns the repository of the Function price.
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

// awaitJob waits for a new build that has not ended.
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

// end acts as the kubelet after the builder has ended and, after a failure, as the Job controller. A success must be
// observed before the Job controller reports it.
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

// push acts as the builder.
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

// target returns the image that a build has to push.
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

// roll makes the Deployment ready.
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

const leftPad = `{"dependencies":{"left-pad":"1.3.0"}}`

func TestBuildsOnARealAPIServer(t *testing.T) {
	repositories := runManager(t, simultaneous)
	for name, test := range map[string]func(*fixture, *fakeRepositories){
		"an image is built once and then reused":                          buildsOnce,
		"a failed build reports the reason and keeps the running version": survivesFailure,
		"a transient failure is tried again with backoff":                 triesAgain,
		"a repaired Secret is tried at once":                              followsSecrets,
		"a change of the registry moves the images":                       switchesRegistry,
		"an invalid Secret of a registry is reported":                     namesWrongRegistry,
		"an unavailable registry is queried again":                        waitsForRegistry,
		"a registry that rejects queries does not prevent a build":        buildsForSilentRegistry,
		"a missing image is rebuilt":                                      rebuildsWhatIsGone,
		"a pushed tag is not run":                                         ignoresPushedTags,
		"credentials that a user changed are repaired":                    repairsCredentials,
		"newer source cancels an older build":                             supersedes,
		"a build that cannot begin frees its slot":                        endsStuckBuild,
		"a commit is built, and later a newer one":                        followsCommits,
		"an unreadable repository keeps the running version":              survivesRepository,
		"an expensive SSH key is not decrypted":                           refusesCostlyKey,
		"without a registry pods install dependencies themselves":         installsInPods,
		"a Function that no longer needs an image has no builds":          forgetsBuilds,
		"files of a ConfigMap are built, and others later":                buildsFiles,
		"without a registry pods get the files of a ConfigMap":            installsFilesInPods,
		"an image of Kyma's contract installs in its pods":                runsKymasImage,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newFixture(t), repositories)
		})
	}
}

func buildsOnce(w *fixture, _ *fakeRepositories) {
	t := w.t
	server := registrytest.Start(t)
	w.useRegistry(server)
	fn := w.create(withDependencies("nodejs22", leftPad))
	job := w.awaitJob(fn)
	w.awaitCondition(fn, v1alpha2.ConditionRunning, metav1.ConditionUnknown, v1alpha2.ReasonDeploymentWaiting)
	condition := w.awaitCondition(fn, v1alpha2.ConditionBuildReady, metav1.ConditionUnknown, v1alpha2.ReasonJobRunning)
	require.Equal(t, "Job "+job.Name+" is still in progress", condition.Message)
	require.True(t, metav1.IsControlledBy(job, fn))
	input := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: job.Name}}
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(input), input))
	plan, err := buildplan.DecodePlan(input.Data[buildplan.PlanFile])
	require.NoError(t, err)
	require.Equal(t, target(job), plan.Target)
	require.True(t, plan.Insecure)
	require.JSONEq(t, leftPad, plan.Dependencies)
	require.True(t, strings.HasPrefix(plan.Target, server.Host+"/"+w.repository()+":"), plan.Target)

	digest := push(t, plan.Target)
	w.end(job, buildplan.Result{Digest: digest}, time.Now())
	image := server.Host + "/" + w.repository() + "@" + digest
	deployment := w.awaitImage(fn, image)
	pod := deployment.Spec.Template.Spec
	require.Equal(t, "rouse-registry-price", pod.ImagePullSecrets[0].Name)
	require.Empty(t, pod.InitContainers)
	require.NotEmpty(t, sourceOf(deployment))
	pull := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "rouse-registry-price"}}
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(pull), pull))
	require.Contains(t, string(pull.Data[corev1.DockerConfigJsonKey]), server.Host)
	condition = w.awaitCondition(fn, v1alpha2.ConditionBuildReady, metav1.ConditionTrue, v1alpha2.ReasonJobFinished)
	require.Equal(t, image, fn.Status.Build.Image)
	require.True(t, strings.HasSuffix(plan.Target, fn.Status.Build.Tag))
	w.awaitNoJobs(fn)

	source := sourceOf(deployment)
	update(w, fn, withSource("module.exports = { main: () => 'other' }"))
	await(w, deployment, "new source arrives", func(d *appsv1.Deployment) bool { return sourceOf(d) != source })
	require.Equal(t, image, deployment.Spec.Template.Spec.Containers[0].Image)

	require.NoError(t, w.Delete(t.Context(), fn))
	again := w.create(withDependencies("nodejs22", leftPad))
	w.eventually(func() error { return w.collect(again) })
	require.NotEqual(t, target(job), target(w.awaitJob(again, job)), "a new Function must not use the image of an earlier one of its name")
}

// collect acts as the garbage collector: it deletes the remains of an earlier Function of the same name, and returns an
// error until all are gone. A controller with a stale cache may create an object once more.
func (w *fixture) collect(fn *v1alpha2.Function) error {
	key := client.ObjectKeyFromObject(fn)
	for object, name := range map[client.Object]string{
		&appsv1.Deployment{}: fn.Name, &corev1.Service{}: fn.Name, &corev1.Secret{}: "rouse-registry-" + fn.Name,
	} {
		key.Name = name
		if err := w.Get(w.t.Context(), key, object); client.IgnoreNotFound(err) != nil {
			return err
		}
		if object.GetUID() != "" && !metav1.IsControlledBy(object, fn) {
			return errors.Join(fmt.Errorf("%T %s is a former one's", object, key), w.Delete(w.t.Context(), object))
		}
	}
	return nil
}

func sourceOf(deployment *appsv1.Deployment) string {
	for _, variable := range deployment.Spec.Template.Spec.Containers[0].Env {
		if variable.Name == workload.EnvHandlerSource {
			return variable.Value
		}
	}
	return ""
}

// built returns a Function whose image is built and runs.
func (w *fixture) built(server *registrytest.Registry) (*v1alpha2.Function, *appsv1.Deployment) {
	w.t.Helper()
	fn := w.create(withDependencies("nodejs22", leftPad))
	job := w.awaitJob(fn)
	digest := push(w.t, target(job))
	w.end(job, buildplan.Result{Digest: digest}, time.Now())
	deployment := w.awaitImage(fn, server.Host+"/"+w.repository()+"@"+digest)
	w.roll(deployment)
	w.awaitCondition(fn, v1alpha2.ConditionRunning, metav1.ConditionTrue, v1alpha2.ReasonDeploymentReady)
	w.awaitNoJobs(fn)
	return fn, deployment
}

// awaitNoJobs waits until a build that has succeeded has removed the Function's Jobs.
func (w *fixture) awaitNoJobs(fn *v1alpha2.Function) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return len(w.jobs(fn)) == 0 }, timeout, tick, "a Job stays")
}

func survivesFailure(w *fixture, _ *fakeRepositories) {
	t := w.t
	server := registrytest.Start(t)
	w.useRegistry(server)
	fn, deployment := w.built(server)
	template := deployment.Spec.Template.DeepCopy()

	update(w, fn, withDependencies("nodejs22", `{"dependencies":{"left-pad":"99.0.0"}}`))
	job := w.awaitJob(fn)
	w.end(job, buildplan.Result{Reason: language.PackageNotFound, Message: "There is no left-pad 99.0.0", Log: "npm error notarget"}, time.Now())
	condition := w.awaitCondition(fn, v1alpha2.ConditionBuildReady, metav1.ConditionFalse, v1alpha2.ReasonJobFailed)
	for _, says := range []string{job.Name, "There is no left-pad 99.0.0", "npm error notarget", "kubectl logs", "otherwise at"} {
		require.Contains(t, condition.Message, says)
	}
	w.awaitCondition(fn, v1alpha2.ConditionRunning, metav1.ConditionTrue, v1alpha2.ReasonDeploymentReady)

	update(w, fn, func(fn *v1alpha2.Function) { fn.Spec.Replicas = ptr.To[int32](3) })
	await(w, deployment, "the number of pods still follows", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 3 })
	update(w, fn, func(fn *v1alpha2.Function) { scaled(0, 4)(fn) })
	w.scaledObject(fn)
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment))
	require.Equal(t, *template, deployment.Spec.Template)
	require.Len(t, w.jobs(fn), 1, "the failed Job stays, for its log, and no other comes")

	update(w, fn, withDependencies("nodejs22", leftPad))
	w.awaitCondition(fn, v1alpha2.ConditionBuildReady, metav1.ConditionTrue, v1alpha2.ReasonJobFinished)
	w.awaitNoJobs(fn)
}

func triesAgain(w *fixture, _ *fakeRepositories) {
	t := w.t
	w.useRegistry(registrytest.Start(t))
	fn := w.create(withDependencies("nodejs22", leftPad))
	first := w.awaitJob(fn)
	// The condition is there until the next Job, which has to be long enough for a busy machine to see it.
	w.end(first, buildplan.Result{Reason: language.PackagesUnreachable, Message: "no answer"}, time.Now().Add(-firstRetry+10*time.Second))
	condition := w.awaitCondition(fn, v1alpha2.ConditionBuildReady, metav1.ConditionFalse, v1alpha2.ReasonJobFailed)
	require.Contains(t, condition.Message, "It is retried at")
	second := w.awaitJob(fn, first)
	require.Equal(t, "1", second.Annotations[annotationFailures])
	require.Len(t, w.jobs(fn), 2, "the log of the first is kept while the second runs")
	w.end(second, buildplan.Result{Reason: language.PackagesUnreachable, Message: "no answer"}, time.Now())
	require.Eventually(t, func() bool { return len(w.jobs(fn)) == 1 }, timeout, tick, "only the last failed Job is kept")

	update(w, fn, func(fn *v1alpha2.Function) { fn.Annotations = map[string]string{v1alpha2.AnnotationRebuild: "now"} })
	third := w.awaitJob(fn, first, second)
	require.Equal(t, "0", third.Annotations[annotationFailures])
	require.NotEqual(t, target(second), target(third), "a registry that had the image would not let it be built again")
}

func followsSecrets(w *fixture, _ *fakeRepositories) {
	t := w.t
	w.useRegistry(registrytest.Start(t))
	fn := w.create(withDependencies("nodejs22", leftPad))
	first := w.awaitJob(fn)
	w.end(first, buildplan.Result{Reason: language.PackageForbidden, Message: "401"}, time.Now())
	w.awaitCondition(fn, v1alpha2.ConditionBuildReady, metav1.ConditionFalse, v1alpha2.ReasonJobFailed)
	unrelated := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "unrelated"}}
	require.NoError(t, w.Create(t.Context(), unrelated))
	settle()
	require.Len(t, w.jobs(fn), 1)

	packages := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: v1alpha2.PackageRegistrySecret}}
	require.NoError(t, w.Create(t.Context(), packages))
	second := w.awaitJob(fn, first)
	require.Equal(t, target(first), target(second))
	require.Equal(t, "0", second.Annotations[annotationFailures])
}

func switchesRegistry(w *fixture, _ *fakeRepositories) {
	t := w.t
	first, second := registrytest.Start(t), registrytest.Start(t)
	secret := w.useRegistry(first)
	fn, deployment := w.built(first)
	before := deployment.Spec.Template.Spec.Containers[0].Image

	update(w, secret, func(s *corev1.Secret) { s.Data["registryAddress"] = []byte(second.Host) })
	job := w.awaitJob(fn)
	require.True(t, strings.HasPrefix(target(job), second.Host+"/"), target(job))
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment))
	require.Equal(t, before, deployment.Spec.Template.Spec.Containers[0].Image, "the running image must stay until the new one exists")
	digest := push(t, target(job))
	w.end(job, buildplan.Result{Digest: digest}, time.Now())
	w.awaitImage(fn, second.Host+"/"+w.repository()+"@"+digest)

	require.NoError(t, w.Delete(t.Context(), secret))
	w.awaitCondition(fn, v1alpha2.ConditionBuildReady, metav1.ConditionFalse, v1alpha2.ReasonNoRegistry)
	w.awaitImage(fn, "runtime-nodejs22:1")
}

func namesWrongRegistry(w *fixture, _ *fakeRepositories) {
	t := w.t
	server := registrytest.Start(t)
	secret := w.useRegistry(server)
	fn, deployment := w.built(server)
	before := deployment.Spec.Template.Spec.Containers[0].Image
	update(w, secret, func(s *corev1.Secret) { delete(s.Data, "registryAddress") })
	condition := w.awaitCondition(fn, v1alpha2.ConditionBuildReady, metav1.ConditionFalse, v1alpha2.ReasonRegistryInvalid)
	require.Contains(t, condition.Message, w.namespace+"/"+v1alpha2.RegistrySecret)
	require.Contains(t, condition.Message, "the key registryAddress is missing. Set it to")
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment))
	require.Equal(t, before, deployment.Spec.Template.Spec.Containers[0].Image)

	update(w, secret, func(s *corev1.Secret) { s.Data["registryAddress"] = []byte(server.Host) })
	w.awaitCondition(fn, v1alpha2.ConditionBuildReady, metav1.ConditionTrue, v1alpha2.ReasonJobFinished)
}

func waitsForRegistry(w *fixture, _ *fakeRepositories) {
	t := w.t
	server := registrytest.Start(t)
	server.Intercept(func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusServiceUnavailable)
		return true
	})
	w.useRegistry(server)
	fn := w.create(withDependencies("nodejs22", leftPad))
	condition := w.awaitCondition(fn, v1alpha2.ConditionBuildReady, metav1.ConditionUnknown, v1alpha2.ReasonRegistryUnavailable)
	require.Contains(t, condition.Message, "the registry does not answer")
	require.Empty(t, w.jobs(fn))
	server.Intercept(nil)
	w.awaitJob(fn)
}

func buildsForSilentRegistry(w *fixture, _ *fakeRepositories) {
	server := registrytest.Start(w.t)
	server.Intercept(func(rw http.ResponseWriter, _ *http.Request) bool {
		rw.WriteHeader(http.StatusForbidden)
		return true
	})
	w.useRegistry(server)
	w.awaitJob(w.create(withDependencies("nodejs22", leftPad)))
}

func rebuildsWhatIsGone(w *fixture, _ *fakeRepositories) {
	t := w.t
	server := registrytest.Start(t)
	w.useRegistry(server)
	fn, deployment := w.built(server)
	server.Intercept(func(rw http.ResponseWriter, request *http.Request) bool {
		if !strings.Contains(request.URL.Path, "/manifests/") {
			return false
		}
		rw.WriteHeader(http.StatusNotFound)
		return true
	})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: "stuck",
			Labels: deployment.Spec.Template.Labels, Annotations: deployment.Spec.Template.Annotations,
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: resources.ContainerName, Image: "i"}}},
	}
	require.NoError(t, w.Create(t.Context(), pod))
	updateStatus(w, pod, func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name:  resources.ContainerName,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reasonImagePullBackOff, Message: "not found"}},
		}}
	})
	job := w.awaitJob(fn)
	require.Contains(t, target(job), fn.Status.Build.Tag)
}

// A client that may push can overwrite the tag of a future build.
func ignoresPushedTags(w *fixture, _ *fakeRepositories) {
	t := w.t
	server := registrytest.Start(t)
	w.useRegistry(server)
	fn, deployment := w.built(server)
	before := deployment.Spec.Template.Spec.Containers[0].Image
	push(t, server.Host+"/"+w.repository()+":"+fn.Status.Build.Tag)
	fresh := w.create(func(fn *v1alpha2.Function) { fn.Name = "fresh" }, withDependencies("nodejs22", leftPad))
	job := w.awaitJob(fresh)
	push(t, target(job))
	update(w, fresh, func(fn *v1alpha2.Function) { fn.Labels = map[string]string{"look": "again"} })
	update(w, fn, func(fn *v1alpha2.Function) { fn.Labels = map[string]string{"look": "again"} })
	settle()
	require.Len(t, w.jobs(fresh), 1, "a tag is no reason not to build")
	require.True(t, apierrors.IsNotFound(w.Get(t.Context(), client.ObjectKeyFromObject(fresh), &appsv1.Deployment{})))
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(deployment), deployment))
	require.Equal(t, before, deployment.Spec.Template.Spec.Containers[0].Image)
}

func repairsCredentials(w *fixture, _ *fakeRepositories) {
	t := w.t
	server := registrytest.Start(t)
	w.useRegistry(server)
	w.built(server)
	pull := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "rouse-registry-price"}}
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(pull), pull))
	want := pull.DeepCopy()
	for name, change := range map[string]func(*corev1.Secret){
		"other credentials": func(s *corev1.Secret) { s.Data[corev1.DockerConfigJsonKey] = []byte(`{"auths":{}}`) },
		"another key":       func(s *corev1.Secret) { s.Data["more"] = []byte("x") },
		"no labels":         func(s *corev1.Secret) { s.Labels = nil },
	} {
		update(w, pull, change)
		await(w, pull, "the Secret is as it was after "+name, func(s *corev1.Secret) bool {
			return maps.EqualFunc(s.Data, want.Data, bytes.Equal) && maps.Equal(s.Labels, want.Labels)
		})
	}
	require.NoError(t, w.Delete(t.Context(), pull))
	await(w, pull, "the Secret comes back", func(s *corev1.Secret) bool { return maps.EqualFunc(s.Data, want.Data, bytes.Equal) })
}

func supersedes(w *fixture, _ *fakeRepositories) {
	t := w.t
	w.useRegistry(registrytest.Start(t))
	fn := w.create(withDependencies("nodejs22", leftPad))
	first := w.awaitJob(fn)
	update(w, fn, withDependencies("nodejs22", `{"dependencies":{"left-pad":"1.2.0"}}`))
	second := w.awaitJob(fn, first)
	w.awaitGone(first, string(first.UID))
	require.NotEqual(t, target(first), target(second))
}

func endsStuckBuild(w *fixture, _ *fakeRepositories) {
	t := w.t
	w.useRegistry(registrytest.Start(t))
	fn := w.create(withDependencies("nodejs22", leftPad))
	job := w.awaitJob(fn)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: "build", Labels: map[string]string{batchv1.JobNameLabel: job.Name},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: resources.PushContainerName, Image: "i"}}},
	}
	maps.Copy(pod.Labels, job.Spec.Template.Labels)
	require.NoError(t, w.Create(t.Context(), pod))
	updateStatus(w, pod, func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: resources.PushContainerName,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: reasonImagePullBackOff, Message: "Back-off pulling image",
			}},
		}}
	})
	require.Eventually(t, func() bool {
		require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(fn), fn))
		condition := meta.FindStatusCondition(fn.Status.Conditions, v1alpha2.ConditionBuildReady)
		return condition != nil && strings.Contains(condition.Message, "still in progress: ImagePullBackOff: Back-off pulling image")
	}, timeout, tick, "the trouble of the build is not reported")
}

func installsInPods(w *fixture, _ *fakeRepositories) {
	t := w.t
	fn := w.create(withDependencies("python312", "requests==2.32.5"))
	deployment := w.awaitImage(fn, "runtime-python312:1")
	condition := w.awaitCondition(fn, v1alpha2.ConditionBuildReady, metav1.ConditionFalse, v1alpha2.ReasonNoRegistry)
	require.Contains(t, condition.Message, "every pod installs the dependencies when it starts")
	require.Contains(t, condition.Message, v1alpha2.RegistrySecret)
	pod := deployment.Spec.Template.Spec
	require.Len(t, pod.InitContainers, 2)
	require.Equal(t, []string{"/rouse/bin/builder", "prepare"}, pod.InitContainers[1].Command)
	require.Empty(t, w.jobs(fn))
	code, ok := resources.CodeOf(&deployment.Spec.Template)
	require.True(t, ok)
	input := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: code.Prepared.Input}}
	require.NoError(t, w.Get(t.Context(), client.ObjectKeyFromObject(input), input))
	plan, err := buildplan.DecodePlan(input.Data[buildplan.PlanFile])
	require.NoError(t, err)
	require.Empty(t, plan.Target)
	require.Equal(t, "requests==2.32.5", plan.Dependencies)
	w.roll(deployment)
	w.awaitCondition(fn, v1alpha2.ConditionRunning, metav1.ConditionTrue, v1alpha2.ReasonDeploymentReady)

	require.NoError(t, w.Delete(t.Context(), input))
	await(w, input, "the Secret comes back", func(s *corev1.Secret) bool { return len(s.Data) > 0 })
}

func forgetsBuilds(w *fixture, _ *fakeRepositories) {
	t := w.t
	server := registrytest.Start(t)
	w.useRegistry(server)
	fn, _ := w.built(server)
	update(w, fn, withDependencies("nodejs22", ""))
	w.awaitImage(fn, "runtime-nodejs22:1")
	await(w, fn, "no build remains", func(fn *v1alpha2.Function) bool {
		return fn.Status.Build == nil && meta.FindStatusCondition(fn.Status.Conditions, v1alpha2.ConditionBuildReady) == nil
	})
}

func TestBuildsTakeTurnsOnARealAPIServer(t *testing.T) {
	runManager(t, 1)
	w := newFixture(t)
	server := registrytest.Start(t)
	w.useRegistry(server)
	named := func(name string) func(*v1alpha2.Function) {
		return func(fn *v1alpha2.Function) { fn.Name = name }
	}
	first := w.create(named("first"), withDependencies("nodejs22", leftPad))
	job := w.awaitJob(first)
	second := w.create(named("second"), withDependencies("nodejs22", leftPad))
	w.awaitCondition(second, v1alpha2.ConditionBuildReady, metav1.ConditionUnknown, v1alpha2.ReasonBuildQueued)
	third := w.create(named("third"), withDependencies("nodejs22", leftPad))
	condition := w.awaitCondition(third, v1alpha2.ConditionBuildReady, metav1.ConditionUnknown, v1alpha2.ReasonBuildQueued)
	require.Equal(t, "Waiting for a build slot: position 2 of 2, 1 builds run", condition.Message)
	require.Empty(t, w.jobs(second))

	ended := buildplan.Result{Digest: push(t, target(job))}
	called := soon(func() {
		w.end(job, ended, time.Now())
		w.awaitJob(second)
	})
	require.Empty(t, w.jobs(third))
	require.NoError(t, w.Delete(t.Context(), second))
	again := soon(func() {
		w.eventually(func() error {
			// envtest has no garbage collector, and a controller with a stale cache may create a Job once more.
			for _, job := range w.jobs(second) {
				if err := w.Delete(t.Context(), &job, client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(err) != nil {
					return err
				}
			}
			if len(w.jobs(third)) == 0 {
				return errors.New("no build of the third Function begins")
			}
			return nil
		})
	})
	require.True(t, called || again, "the next Function must be notified rather than poll") // on a busy machine the first may be slow
}

// soon reports whether the awaited event arrived before the next poll would have found it.
func soon(await func()) bool {
	began := time.Now()
	await()
	return time.Since(began) < soonestPositionCheck
}
