package images

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/testing/envtest"
)

// cluster is the control plane of all tests here.
var cluster = envtest.New()

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// installed is a registry's Deployment in a namespace of its own, and what sweeps it.
func installed(t *testing.T, change func(*appsv1.Deployment)) *jobs {
	t.Helper()
	env := cluster.Environment(t)
	live, err := client.New(env.Config, client.Options{})
	require.NoError(t, err)
	registry := deployed()
	registry.Namespace, registry.UID = env.Namespace(t), ""
	if change != nil {
		change(registry)
	}
	require.NoError(t, live.Create(t.Context(), registry))
	return &jobs{live: live, namespace: registry.Namespace, name: registry.Name}
}

// begin sweeps in the background and waits for the Job.
func (j *jobs) begin(t *testing.T) (job *batchv1.Job, ended <-chan error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- j.Sweep(t.Context()) }()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		found, err := j.running(t.Context())
		require.NoError(c, err)
		require.NotNil(c, found)
		job = found
	}, time.Minute, 20*time.Millisecond)
	return job, done
}

// end writes what the Job controller writes.
func (j *jobs) end(t *testing.T, job *batchv1.Job, before, last batchv1.JobConditionType) {
	t.Helper()
	now := metav1.Now()
	job.Status.StartTime = &now
	if last == batchv1.JobComplete {
		job.Status.CompletionTime, job.Status.Succeeded = &now, 1
	}
	for _, kind := range []batchv1.JobConditionType{before, last} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	require.NoError(t, j.live.Status().Update(t.Context(), job))
}

func (j *jobs) count(t *testing.T) int {
	t.Helper()
	found := &batchv1.JobList{}
	require.NoError(t, j.live.List(t.Context(), found, client.InNamespace(j.namespace)))
	return len(found.Items)
}

func TestASweepLastsAsLongAsItsJobWhichPodSecurityAdmits(t *testing.T) {
	t.Parallel()
	j := installed(t, nil)
	running, err := j.Running(t.Context())
	require.NoError(t, err)
	require.False(t, running)

	job, ended := j.begin(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: j.namespace}}
	require.NoError(t, j.live.Patch(t.Context(), namespace, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`))))
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: "as-the-job-would"}, Spec: job.Spec.Template.Spec}
	require.NoError(t, j.live.Create(t.Context(), pod, client.DryRunAll))

	second, secondEnded := j.begin(t)
	require.Equal(t, job.Name, second.Name, "two do not sweep at a time")
	running, err = j.Running(t.Context())
	require.NoError(t, err)
	require.True(t, running)

	j.end(t, job, batchv1.JobSuccessCriteriaMet, batchv1.JobComplete)
	require.NoError(t, <-ended)
	require.NoError(t, <-secondEnded)
	require.Equal(t, 1, j.count(t))
}

func TestASweepThatFailsSaysWhereToLook(t *testing.T) {
	t.Parallel()
	j := installed(t, nil)
	job, ended := j.begin(t)
	j.end(t, job, batchv1.JobFailureTarget, batchv1.JobFailed)
	require.ErrorContains(t, <-ended, job.Name+": the Job has failed, its log says why")
}

func TestARegistryWithoutAVolumeIsNotSwept(t *testing.T) {
	t.Parallel()
	j := installed(t, func(registry *appsv1.Deployment) {
		registry.Spec.Template.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	})
	require.NoError(t, j.Sweep(t.Context()))
	require.Zero(t, j.count(t))
}

func TestASweepOfARegistryThatIsGoneFails(t *testing.T) {
	t.Parallel()
	j := installed(t, nil)
	j.name = "another"
	require.ErrorContains(t, j.Sweep(t.Context()), "read the registry's Deployment")
}

func TestASweepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	j := installed(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, j.Sweep(ctx), context.DeadlineExceeded)
}
