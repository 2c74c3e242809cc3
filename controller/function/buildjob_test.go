package function

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/registry"
	"github.com/rouse-run/rouse/runtimes/language"
)

// registrySecret names a registry that no test queries.
func registrySecret() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: v1alpha2.RegistrySecret,
			Labels: map[string]string{v1alpha2.LabelRemoteRegistry: v1alpha2.RemoteRegistryConfig},
		},
		Data: map[string][]byte{"registryAddress": []byte("registry.example.com")},
	}
}

// shop is the tenant of every Function here.
func shop() registry.Tenant { return registry.Tenant{Namespace: "shop", UID: "uid-of-shop"} }

// buildOf returns the Job of a Function, created before noon.
func buildOf(t *testing.T, fn *v1alpha2.Function, age time.Duration) *batchv1.Job {
	t.Helper()
	found, err := supplyOf(fn, "runtime-nodejs22:1", nil)
	require.NoError(t, err)
	job := jobFor(attempt{target: "registry.example.com/" + shop().Repository("price") + ":" + buildplan.Tag(*found.plan), inputs: "i"})
	job.UID, job.Labels, job.CreationTimestamp = "uid-of-job", resources.JobLabels(fn), metav1.NewTime(noon().Add(-age))
	job.Spec.ActiveDeadlineSeconds = new(int64(900))
	return job
}

func buildPod(fn *v1alpha2.Function, job *batchv1.Job, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pod-of-build", Labels: resources.JobLabels(fn)}}
	pod.Labels[batchv1.JobNameLabel] = job.Name
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func TestWatchOfARunningBuild(t *testing.T) {
	t.Parallel()
	fn := newFunction(withDependencies("nodejs22", leftPad))
	noImage := waitingFor(reasonImagePullBackOff, "Back-off pulling image")
	warning := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: "e"},
		InvolvedObject: corev1.ObjectReference{UID: "uid-of-job"},
		Type:           corev1.EventTypeWarning, Message: "pods is forbidden: exceeded quota",
	}
	for name, tc := range map[string]struct {
		age          time.Duration
		pod          []func(*corev1.Pod) // nil: none
		event        bool
		says         string
		requeueAfter time.Duration
		ends         bool
	}{
		"a build with a pod needs no action":                    {age: time.Hour, pod: []func(*corev1.Pod){}, says: "is still in progress"},
		"a pod may take a moment to be created":                 {age: time.Second, says: "is still in progress", requeueAfter: 9 * time.Second},
		"events are read after the grace period":                {age: 10 * time.Second, event: true, says: ": it has no pod yet: pods is forbidden", requeueAfter: 110 * time.Second},
		"there may be no events":                                {age: time.Hour, says: "is still in progress", requeueAfter: time.Second},
		"no pod for long ends the build":                        {age: stuckGrace, event: true, says: "exceeded quota", ends: true},
		"a missing image is reported":                           {age: time.Second, pod: []func(*corev1.Pod){noImage}, says: "ImagePullBackOff: Back-off", requeueAfter: 119 * time.Second},
		"a missing image ends the build after the grace period": {age: stuckGrace, pod: []func(*corev1.Pod){noImage}, says: "ImagePullBackOff", ends: true},
		"a full cluster may grow for a while": {
			age: stuckGrace, pod: []func(*corev1.Pod){unschedulable},
			says: "the pod is unschedulable: 0/1 nodes are available: Insufficient cpu", requeueAfter: 8 * time.Minute,
		},
		"a full cluster ends the build after the grace period": {
			age: unschedulableGrace, pod: []func(*corev1.Pod){unschedulable}, says: "Insufficient cpu", ends: true,
		},
		"the grace period restarts when the pod is scheduled": {
			age: time.Hour, pod: []func(*corev1.Pod){scheduled(time.Second), noImage}, says: "ImagePullBackOff", requeueAfter: 119 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := buildOf(t, fn, tc.age)
			objects := []client.Object{fn.DeepCopy(), registrySecret(), job}
			if tc.pod != nil {
				objects = append(objects, buildPod(fn, job, tc.pod...))
			}
			if tc.event {
				objects = append(objects, warning.DeepCopy())
			}
			b := newBench(t, false, objects...)
			result, err := b.reconcile()
			require.NoError(t, err)
			require.Equal(t, tc.requeueAfter, result.RequeueAfter)
			condition := meta.FindStatusCondition(b.function().Status.Conditions, v1alpha2.ConditionBuildReady)
			require.Equal(t, v1alpha2.ReasonJobRunning, condition.Reason)
			require.Contains(t, condition.Message, tc.says)

			require.NoError(t, b.client.Get(t.Context(), client.ObjectKeyFromObject(job), job))
			require.Equal(t, tc.ends, *job.Spec.ActiveDeadlineSeconds == 1)
			if tc.ends {
				job.Status.Conditions = []batchv1.JobCondition{jobEnded(batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded)}
				result := resultOf(job, nil)
				require.Contains(t, result.Message, "The pod of the build does not start: ")
				require.Contains(t, result.Message, tc.says)
			}
		})
	}
}

func unschedulable(pod *corev1.Pod) {
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available: Insufficient cpu",
	}}
}

// scheduled assigns the pod to a node before noon.
func scheduled(ago time.Duration) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon().Add(-ago)),
		}}
	}
}

// Kubernetes deletes the pod before it marks the Job as failed. The controller ends the Job by a deadline, which has an
// event of its own.
func TestABuildKeepsItsReasonWhileItsJobIsDeleted(t *testing.T) {
	t.Parallel()
	fn := newFunction(withDependencies("nodejs22", leftPad))
	deadline := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "e"}, InvolvedObject: corev1.ObjectReference{UID: "uid-of-job"},
		Type: corev1.EventTypeWarning, Message: "Job was active longer than specified deadline",
	}
	for name, tc := range map[string]struct {
		end  func(*batchv1.Job)
		says string
	}{
		"by the controller": {func(job *batchv1.Job) {
			text, err := problemOf("the pod is unschedulable: Insufficient cpu")
			require.NoError(t, err)
			job.Annotations[annotationProblem] = text
		}, "Insufficient cpu"},
		"by Kubernetes": {func(job *batchv1.Job) {
			job.Status.Conditions = []batchv1.JobCondition{jobEnded(batchv1.JobFailureTarget, batchv1.JobReasonDeadlineExceeded)}
		}, "The build exceeded its deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := buildOf(t, fn, time.Hour)
			tc.end(job)
			b := newBench(t, false, fn.DeepCopy(), registrySecret(), job, deadline.DeepCopy())
			_, err := b.reconcile()
			require.NoError(t, err)
			condition := meta.FindStatusCondition(b.function().Status.Conditions, v1alpha2.ConditionBuildReady)
			require.Equal(t, v1alpha2.ReasonJobRunning, condition.Reason)
			require.Contains(t, condition.Message, tc.says)
			require.NotContains(t, condition.Message, "it has no pod yet")
		})
	}
}

func TestFinishedBuildsAreCleanedUp(t *testing.T) {
	t.Parallel()
	secret := func(name, resource string, age time.Duration) *corev1.Secret {
		built := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(noon().Add(-age)),
			Labels: resources.JobLabels(newFunction()),
		}}
		built.Labels[v1alpha2.LabelResource] = resource
		return built
	}
	fn := newFunction(withDependencies("nodejs22", leftPad))
	job := buildOf(t, fn, time.Hour)
	objects := []client.Object{
		fn, registrySecret(), job, buildPod(fn, job),
		secret(job.Name, v1alpha2.ResourceJob, time.Hour),
		secret("of-a-job-that-is-gone", v1alpha2.ResourceJob, time.Hour),
		secret("of-a-job-not-seen-yet", v1alpha2.ResourceJob, time.Second),
	}
	b := newBench(t, false, objects...)
	exists := func(name string) bool {
		err := b.client.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: name}, &corev1.Secret{})
		require.NoError(t, client.IgnoreNotFound(err))
		return !apierrors.IsNotFound(err)
	}
	_, err := b.reconcile()
	require.NoError(t, err)
	require.True(t, exists(job.Name), "its build runs")

	found, err := supplyOf(fn, "runtime-nodejs22:1", nil)
	require.NoError(t, err)
	found.plan.MaxSize = b.settings.load().Build.MaxImageSize
	registry, err := b.registries.For(t.Context(), "shop")
	require.NoError(t, err)
	as, err := b.attempt(t.Context(), &scope{fn: fn, settings: b.settings.load().Settings, plan: found.plan, registry: registry})
	require.NoError(t, err)
	job.Annotations[annotationInputs] = as.inputs
	require.NoError(t, b.client.Update(t.Context(), job))
	job.Status.Conditions = []batchv1.JobCondition{jobEnded(batchv1.JobFailed, "")}
	require.NoError(t, b.client.Status().Update(t.Context(), job))
	_, err = b.reconcile()
	require.NoError(t, err)
	require.False(t, exists(job.Name), "the Secret of a finished build must be deleted")
	require.False(t, exists("of-a-job-that-is-gone"))
	require.True(t, exists("of-a-job-not-seen-yet"))
}

func TestPreparationSecretsStayWhileAVersionNeedsThem(t *testing.T) {
	t.Parallel()
	fn := newFunction(withDependencies("nodejs22", leftPad))
	preparation := func(name string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, CreationTimestamp: metav1.NewTime(noon().Add(-time.Hour)), Labels: resources.PreparationLabels(fn),
		}}
	}
	set := replicaSet(fn, 1, resources.Code{Image: "runtime-nodejs22:1", Runtime: "nodejs22"})
	set.Spec.Template.Spec.Volumes = []corev1.Volume{{
		Name: "builder-input", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "needed"}},
	}}
	b := newBench(t, false, fn, set, preparation("needed"), preparation("unneeded"))
	_, err := b.reconcile()
	require.NoError(t, err)
	secrets := &corev1.SecretList{}
	require.NoError(t, b.client.List(t.Context(), secrets, client.MatchingLabels(resources.PreparationLabels(fn))))
	var names []string
	for i := range secrets.Items {
		names = append(names, secrets.Items[i].Name)
	}
	require.Len(t, names, 2)
	require.Contains(t, names, "needed")
	require.NotContains(t, names, "unneeded")
}

// jobFor returns a Job that runs, or ended at noon.
func jobFor(made attempt, conditions ...batchv1.JobCondition) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "price-build-" + made.id(), Annotations: made.annotations(),
		CreationTimestamp: metav1.NewTime(noon().Add(-time.Minute)),
	}}
	job.Status.Conditions = conditions
	return job
}

func jobEnded(kind batchv1.JobConditionType, reason string) batchv1.JobCondition {
	return batchv1.JobCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.NewTime(noon()),
	}
}

func TestWhenABuildIsTriedAgain(t *testing.T) {
	t.Parallel()
	wanted := attempt{target: "registry/shop-price:1", inputs: "same"}
	after := func(failures int) attempt {
		return attempt{target: wanted.target, inputs: wanted.inputs, failures: failures}
	}
	for name, tc := range map[string]struct {
		last     attempt
		reason   language.Reason
		want     attempt
		wantWait time.Duration
	}{
		"a transient failure is retried soon":                    {after(0), language.RegistryUnavailable, after(1), 30 * time.Second},
		"a second failure is retried later":                      {after(1), language.PackagesUnreachable, after(2), time.Minute},
		"further failures double the delay":                      {after(3), language.Interrupted, after(4), 4 * time.Minute},
		"the delay is at most ten minutes":                       {after(9), language.RegistryFull, after(10), 10 * time.Minute},
		"the delay does not overflow":                            {after(1000), language.RegistryFull, after(1001), 10 * time.Minute},
		"a failure that needs a repair is retried after an hour": {after(0), language.PackageNotFound, after(1), time.Hour},
		"a repair is tried at once":                              {attempt{target: wanted.target, inputs: "other", failures: 7}, language.PackageForbidden, wanted, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			next, due := wanted.after(jobFor(tc.last, jobEnded(batchv1.JobFailed, "")), buildplan.Result{Reason: tc.reason})
			require.Equal(t, tc.want, next)
			require.Equal(t, noon().Add(tc.wantWait), due)
			require.NotEqual(t, tc.last.id(), next.id(), "the Job of the last attempt is still there")
		})
	}
}

func TestTheHistoryOfBuilds(t *testing.T) {
	t.Parallel()
	wanted, other := attempt{target: "wanted", inputs: "i"}, attempt{target: "other", inputs: "i"}
	failed := func(made attempt) *batchv1.Job { return jobFor(made, jobEnded(batchv1.JobFailed, "")) }
	older := func(job *batchv1.Job) *batchv1.Job {
		job.CreationTimestamp = metav1.NewTime(noon().Add(-time.Hour))
		return job
	}
	first, second, stale, gone := older(failed(wanted)), failed(attempt{target: "wanted", inputs: "i", failures: 1}), jobFor(other), jobFor(wanted)
	gone.DeletionTimestamp = &metav1.Time{Time: noon()}
	found := historyOf([]batchv1.Job{*first, *stale, *second, *gone}, wanted)
	require.Equal(t, second.Name, found.present.Name)
	require.Equal(t, second.Name, found.failed.Name)
	require.Len(t, found.superseded, 1)
	require.Equal(t, stale.Name, found.superseded[0].Name)

	found = historyOf([]batchv1.Job{*failed(other)}, wanted)
	require.Nil(t, found.present)
	require.NotNil(t, found.failed, "the log of another image's build is kept, too")
	require.Empty(t, found.superseded)

	now := attempt{target: "wanted", inputs: "other inputs"}
	found = historyOf([]batchv1.Job{*failed(attempt{target: "wanted", inputs: "i", failures: 5}), *jobFor(now)}, now)
	require.Equal(t, jobFor(now).Name, found.present.Name, "of two of one second")
}

func TestResultOfABuild(t *testing.T) {
	t.Parallel()
	terminated := func(name string, code int32, reason, message string) corev1.Pod {
		return corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
				ExitCode: code, Reason: reason, Message: message,
			}},
		}}}}
	}
	bringer := func(code int32, message string) corev1.Pod {
		pod := terminated("builder", code, "Error", message)
		pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = pod.Status.ContainerStatuses, nil
		return pod
	}
	late := func(pod corev1.Pod) corev1.Pod {
		pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "DeadlineExceeded"
		return pod
	}
	const target = resources.PushContainerName
	for name, tc := range map[string]struct {
		job    batchv1.JobCondition
		pods   []corev1.Pod
		reason language.Reason
		digest string
		says   string
	}{
		"the builder's report takes precedence": {
			job: jobEnded(batchv1.JobFailed, ""), pods: []corev1.Pod{terminated(target, 1, "Error", `{"reason":"PackageNotFound","message":"no left-pad"}`)},
			reason: language.PackageNotFound, says: "no left-pad",
		},
		"an image": {
			job: jobEnded(batchv1.JobComplete, ""), pods: []corev1.Pod{terminated(target, 0, "Completed", `{"digest":"sha256:1"}`)}, digest: "sha256:1",
		},
		"an image although the pod failed afterwards": {
			job: jobEnded(batchv1.JobFailed, ""), pods: []corev1.Pod{terminated(target, 1, "Error", `{"digest":"sha256:1"}`)}, digest: "sha256:1",
		},
		"no memory": {
			job: jobEnded(batchv1.JobFailed, ""), pods: []corev1.Pod{terminated(target, 137, "OOMKilled", "")},
			reason: language.OutOfMemory, says: "spec.resourceConfiguration.build",
		},
		"no report": {
			job: jobEnded(batchv1.JobFailed, ""), pods: []corev1.Pod{terminated(target, 2, "Error", "panic: x")},
			reason: language.Interrupted, says: "exit code 2",
		},
		"a builder that cannot be copied": {
			job: jobEnded(batchv1.JobFailed, ""), pods: []corev1.Pod{bringer(1, "no space left")}, reason: language.Interrupted, says: "Container builder",
		},
		"too long": {
			job: jobEnded(batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded), reason: language.Interrupted, says: "exceeded its deadline",
		},
		"too long since it has a node": {
			job: jobEnded(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded), pods: []corev1.Pod{late(terminated(target, 137, "Error", ""))},
			reason: language.Interrupted, says: "exceeded its deadline",
		},
		"an image just in time": {
			job:  jobEnded(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded),
			pods: []corev1.Pod{late(terminated(target, 0, "Completed", `{"digest":"sha256:1"}`))}, digest: "sha256:1",
		},
		"evicted": {
			job:    jobEnded(batchv1.JobFailed, ""),
			pods:   []corev1.Pod{{Status: corev1.PodStatus{Reason: "Evicted", Message: "The node was low on resource: ephemeral-storage"}}},
			reason: language.Interrupted, says: "Evicted: The node was low",
		},
		"a deleted pod": {job: jobEnded(batchv1.JobFailed, ""), reason: language.Interrupted, says: "disappeared"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := resultOf(jobFor(attempt{}, tc.job), tc.pods)
			require.Equal(t, tc.reason, got.Reason)
			require.Equal(t, tc.digest, got.Digest)
			require.Contains(t, got.Message, tc.says)
		})
	}
	t.Run("a build that the controller ended", func(t *testing.T) {
		t.Parallel()
		job := jobFor(attempt{}, jobEnded(batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded))
		text, err := problemOf("ImagePullBackOff: no such image")
		require.NoError(t, err)
		job.Annotations[annotationProblem] = text
		got := resultOf(job, nil)
		require.True(t, got.Reason.Transient())
		require.Equal(t, "The pod of the build does not start: ImagePullBackOff: no such image", got.Message)
	})
}

func TestAFailedBuildReportsReasonLogAndRetry(t *testing.T) {
	t.Parallel()
	job := jobFor(attempt{target: "t"}, jobEnded(batchv1.JobFailed, ""))
	got := failedBuildCondition(job, buildplan.Result{Reason: language.PackageNotFound, Message: "There is no left-pad 99.", Log: "npm error 404\n"},
		noon().Add(time.Hour), noon())
	require.Equal(t, "Job "+job.Name+" failed: There is no left-pad 99. The last lines of the log:\nnpm error 404\n"+
		"Full log: kubectl logs --namespace shop job/"+job.Name+". It is built again as soon as the source, the dependencies, "+
		"the Secrets of the build or the annotation rouse.run/rebuild change, otherwise at 2026-01-01 13:00:00 UTC", got.message)
	require.Equal(t, time.Hour, got.requeueAfter)

	got = failedBuildCondition(job, buildplan.Result{Reason: language.RegistryFull, Message: "No space"}, noon().Add(30*time.Second), noon())
	require.Contains(t, got.message, "failed: No space. Full log")
	require.Contains(t, got.message, "It is retried at 2026-01-01 12:00:30 UTC")
}
