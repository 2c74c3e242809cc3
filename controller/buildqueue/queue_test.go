package buildqueue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/kube"
)

// builds are the running builds.
type builds struct {
	mu      sync.Mutex
	running map[types.NamespacedName]bool
	err     error
}

func (b *builds) Running(context.Context) ([]types.NamespacedName, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []types.NamespacedName
	for fn := range b.running {
		found = append(found, fn)
	}
	return found, b.err
}

func (b *builds) set(fn types.NamespacedName, runs bool) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.running, fn); runs {
		b.running[fn] = true
	}
	return len(b.running)
}

func start(t *testing.T, q *Queue) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- q.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
}

func TestTheLimitOfBuildsHoldsUnderLoadAndEveryFunctionBuilds(t *testing.T) {
	t.Parallel()
	const limit, functions = 3, 40
	jobs := &builds{running: map[types.NamespacedName]bool{}}
	q := NewQueue(Limits{Total: limit, PerNamespace: limit, Longest: time.Hour}, jobs, clock.RealClock{})
	start(t, q)
	var wait sync.WaitGroup
	done := make(chan types.NamespacedName, functions)
	attempt := func(fn types.NamespacedName) {
		status, err := q.Enter(t.Context(), fn)
		if err != nil || !status.Granted {
			return
		}
		wait.Go(func() {
			if count := jobs.set(fn, true); count > limit {
				t.Errorf("%d builds run", count)
			}
			jobs.set(fn, false)
			q.Leave(fn)
			q.Changed()
			done <- fn
		})
	}
	for i := range functions {
		attempt(named(fmt.Sprintf("ns-%d/f-%d", i%4, i)))
	}
	built := map[types.NamespacedName]bool{}
	for len(built) < functions {
		select {
		case call := <-q.Calls():
			if fn := client.ObjectKeyFromObject(call.Object); !built[fn] {
				attempt(fn)
			}
		case fn := <-done:
			built[fn] = true
		case <-t.Context().Done():
			t.Fatal("not every Function was requeued")
		}
	}
	wait.Wait()
}

// overlaps counts how many lists of the Jobs are taken while another is.
type overlaps struct{ now, seen atomic.Int32 }

func (o *overlaps) Running(context.Context) ([]types.NamespacedName, error) {
	if o.now.Add(1) > 1 {
		o.seen.Add(1)
	}
	runtime.Gosched()
	o.now.Add(-1)
	return nil, nil
}

// Otherwise the Job that only the later list shows would count as ended by the earlier one, and free its slot.
func TestNoListOfTheJobsIsOvertakenByALaterOne(t *testing.T) {
	t.Parallel()
	jobs := &overlaps{}
	q := NewQueue(Limits{Total: 1, Longest: time.Hour}, jobs, clock.RealClock{})
	start(t, q)
	go func() {
		for range q.Calls() {
		}
	}()
	var wait sync.WaitGroup
	for i := range 16 {
		wait.Go(func() {
			fn := named(fmt.Sprintf("ns/f-%d", i))
			for range 100 {
				_, _ = q.Enter(t.Context(), fn)
				_, _ = q.Between(t.Context(), fn, func() error { return nil })
				q.Leave(fn)
			}
		})
	}
	wait.Wait()
	require.Zero(t, jobs.seen.Load())
}

// One Function's build hangs.
func TestCollectorExcludesBuildsOfOneFunctionOnly(t *testing.T) {
	t.Parallel()
	jobs := &builds{running: map[types.NamespacedName]bool{named("evil/hangs"): true}}
	q := NewQueue(Limits{Total: 4, PerNamespace: 2, Longest: time.Hour}, jobs, clock.RealClock{})
	start(t, q)
	enter := func(fn string) bool {
		status, err := q.Enter(t.Context(), named(fn))
		require.NoError(t, err)
		return status.Granted
	}
	require.True(t, enter("evil/granted"))
	for _, fn := range []string{"evil/hangs", "evil/granted"} {
		done, err := q.Between(t.Context(), named(fn), func() error { return errors.New("it was run") })
		require.NoError(t, err)
		require.False(t, done, fn)
	}
	done, err := q.Between(t.Context(), named("shop/price"), func() error {
		require.True(t, enter("shop/other"), "another one of its namespace")
		require.False(t, enter("shop/price"))
		again, err := q.Between(t.Context(), named("shop/price"), func() error { return nil })
		require.False(t, again)
		return errors.Join(err, errors.New("a failure"))
	})
	require.True(t, done)
	require.ErrorContains(t, err, "a failure")
	require.Equal(t, named("shop/price"), client.ObjectKeyFromObject((<-q.Calls()).Object), "it is called at once")
	require.True(t, enter("shop/price"))
}

func TestQueueThatCannotReadJobsGrantsNothing(t *testing.T) {
	t.Parallel()
	jobs := &builds{running: map[types.NamespacedName]bool{}, err: errors.New("no cache")}
	q := NewQueue(Limits{Total: 2, PerNamespace: 2, Longest: time.Hour}, jobs, clock.RealClock{})
	_, err := q.Between(t.Context(), named("a/1"), func() error { return nil })
	require.ErrorContains(t, err, "no cache")
	_, err = q.Enter(t.Context(), named("a/2"))
	require.ErrorContains(t, err, "no cache")
	jobs.err = nil
	status, err := q.Enter(t.Context(), named("a/2"))
	require.NoError(t, err)
	require.True(t, status.Granted)
}

func TestUsersJobsDelayACollectorNoLongerThanABuild(t *testing.T) {
	t.Parallel()
	jobs := &builds{running: map[types.NamespacedName]bool{named("evil/1"): true}}
	now := clocktesting.NewFakeClock(noon())
	q := NewQueue(few(), jobs, now)
	between := func() bool {
		done, err := q.Between(t.Context(), named("evil/1"), func() error { return nil })
		require.NoError(t, err)
		return done
	}
	require.False(t, between(), "an earlier process may have begun it")
	now.Step(few().holdable())
	require.False(t, between())
	now.Step(1)
	require.True(t, between())
}

// newReader returns a reader with Jobs that claim to be builds.
func newReader(t *testing.T, jobs ...*batchv1.Job) client.Reader {
	t.Helper()
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, job := range jobs {
		builder.WithObjects(job)
	}
	return builder.Build()
}

func jobOf(fn string, change func(*batchv1.Job)) *batchv1.Job {
	owner := &v1alpha2.Function{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fn}}
	built := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: resources.JobName(owner, "0123456789"), Labels: resources.JobLabels(owner),
	}}
	if change != nil {
		change(built)
	}
	return built
}

func TestBuildsAreReadFromTheirJobs(t *testing.T) {
	t.Parallel()
	with := func(kind batchv1.JobConditionType) func(*batchv1.Job) {
		return func(job *batchv1.Job) {
			job.Status.Conditions = []batchv1.JobCondition{{Type: kind, Status: corev1.ConditionTrue}}
		}
	}
	running, err := JobReader{newReader(t, jobOf("runs", nil), jobOf("ends", with(batchv1.JobFailureTarget)),
		jobOf("done", with(batchv1.JobComplete)), jobOf("failed", with(batchv1.JobFailed)))}.Running(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, several("shop/runs", "shop/ends"), running)
}

func TestJobsOtherThanBuildsAreNotCounted(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*batchv1.Job){
		"another name":                func(job *batchv1.Job) { job.Name = "evil" },
		"the name of another's build": func(job *batchv1.Job) { job.Name = "other-build-0123456789" },
		"the label of another":        func(job *batchv1.Job) { job.Labels[v1alpha2.LabelFunctionName] = "other" },
		"something else than a build": func(job *batchv1.Job) { job.Labels[v1alpha2.LabelResource] = "sweep" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			running, err := JobReader{newReader(t, jobOf("runs", change))}.Running(t.Context())
			require.NoError(t, err)
			require.Empty(t, running)
		})
	}
}

func TestForgedJobsDoNotAddBuildsOfAFunction(t *testing.T) {
	t.Parallel()
	jobs := []*batchv1.Job{jobOf("runs", nil)}
	for i := range 20 {
		jobs = append(jobs, jobOf("runs", func(job *batchv1.Job) { job.Name = fmt.Sprintf("runs-build-%010d", i) }))
	}
	running, err := JobReader{newReader(t, jobs...)}.Running(t.Context())
	require.NoError(t, err)
	require.Equal(t, several("shop/runs"), running)
}
