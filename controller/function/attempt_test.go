package function

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/runtimes/language"
)

// jobFor is one that ended at noon, or runs.
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
		"a transient failure is tried soon":         {after(0), language.RegistryUnavailable, after(1), 30 * time.Second},
		"then later":                                {after(1), language.PackagesUnreachable, after(2), time.Minute},
		"and later":                                 {after(3), language.Interrupted, after(4), 4 * time.Minute},
		"but within ten minutes":                    {after(9), language.RegistryFull, after(10), 10 * time.Minute},
		"however often it failed":                   {after(1000), language.RegistryFull, after(1001), 10 * time.Minute},
		"what must be repaired is tried after long": {after(0), language.PackageNotFound, after(1), time.Hour},
		"and at once after a repair":                {attempt{target: wanted.target, inputs: "other", failures: 7}, language.PackageForbidden, wanted, 0},
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
		"the builder's word counts": {
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
		"no word": {
			job: jobEnded(batchv1.JobFailed, ""), pods: []corev1.Pod{terminated(target, 2, "Error", "panic: x")},
			reason: language.Interrupted, says: "exit code 2",
		},
		"a builder that cannot be brought": {
			job: jobEnded(batchv1.JobFailed, ""), pods: []corev1.Pod{bringer(1, "no space left")}, reason: language.Interrupted, says: "Container builder",
		},
		"too long": {
			job: jobEnded(batchv1.JobFailed, batchv1.JobReasonDeadlineExceeded), reason: language.Interrupted, says: "took longer",
		},
		"too long since it has a node": {
			job: jobEnded(batchv1.JobFailed, batchv1.JobReasonBackoffLimitExceeded), pods: []corev1.Pod{late(terminated(target, 137, "Error", ""))},
			reason: language.Interrupted, says: "took longer",
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
		"a pod that is gone": {job: jobEnded(batchv1.JobFailed, ""), reason: language.Interrupted, says: "gone"},
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

func TestAFailedBuildSaysWhyWhereAndWhen(t *testing.T) {
	t.Parallel()
	job := jobFor(attempt{target: "t"}, jobEnded(batchv1.JobFailed, ""))
	got := failedBuildCondition(job, buildplan.Result{Reason: language.PackageNotFound, Message: "There is no left-pad 99.", Log: "npm error 404\n"},
		noon().Add(time.Hour), noon())
	require.Equal(t, "Job "+job.Name+" failed: There is no left-pad 99. The last lines of the log:\nnpm error 404\n"+
		"All of the log: kubectl logs --namespace shop job/"+job.Name+". It is built again as soon as the source, the dependencies, "+
		"the Secrets of the build or the annotation rouse.run/rebuild change, otherwise at 2026-01-01 13:00:00 UTC", got.message)
	require.Equal(t, time.Hour, got.requeueAfter)

	got = failedBuildCondition(job, buildplan.Result{Reason: language.RegistryFull, Message: "No space"}, noon().Add(30*time.Second), noon())
	require.Contains(t, got.message, "failed: No space. All of the log")
	require.Contains(t, got.message, "It is tried again at 2026-01-01 12:00:30 UTC")
}
