package build

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/kube"
)

// builds are those that run.
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

func TestTheLimitHoldsUnderLoadAndEverybodyBuilds(t *testing.T) {
	t.Parallel()
	const limit, functions = 3, 40
	jobs := &builds{running: map[types.NamespacedName]bool{}}
	q := NewQueue(limit, jobs, clock.RealClock{})
	start(t, q)
	var wait sync.WaitGroup
	done := make(chan types.NamespacedName, functions)
	attempt := func(fn types.NamespacedName) {
		place, err := q.Enter(t.Context(), fn)
		if err != nil || !place.Granted {
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
			t.Fatal("not everybody was called")
		}
	}
	wait.Wait()
}

func TestHold(t *testing.T) {
	t.Parallel()
	jobs := &builds{running: map[types.NamespacedName]bool{named("a/1"): true}}
	q := NewQueue(2, jobs, clock.RealClock{})
	held := make(chan func(), 1)
	go func() {
		release, err := q.Hold(t.Context())
		if err == nil {
			held <- release
		}
	}()
	require.Eventually(t, func() bool {
		place, err := q.Enter(t.Context(), named("a/2"))
		if place.Granted {
			q.Leave(named("a/2"))
		}
		return err == nil && !place.Granted
	}, time.Minute, 1e6, "builds begin although the queue is held")
	require.Empty(t, held, "a build runs")

	jobs.set(named("a/1"), false)
	q.Changed()
	release := <-held
	start(t, q)
	require.Empty(t, q.calls)
	release()
	release()
	require.Equal(t, named("a/2"), client.ObjectKeyFromObject((<-q.Calls()).Object))
}

func TestAHoldThatCannotBeGrantedLetsBuildsGoOn(t *testing.T) {
	t.Parallel()
	jobs := &builds{running: map[types.NamespacedName]bool{named("a/1"): true}}
	q := NewQueue(2, jobs, clock.RealClock{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := q.Hold(ctx)
	require.ErrorIs(t, err, context.Canceled)
	jobs.err = errors.New("no cache")
	_, err = q.Hold(t.Context())
	require.ErrorContains(t, err, "no cache")
	_, err = q.Enter(t.Context(), named("a/2"))
	require.ErrorContains(t, err, "no cache")
	jobs.err = nil
	place, err := q.Enter(t.Context(), named("a/2"))
	require.NoError(t, err)
	require.True(t, place.Granted)
}

func TestBuildsAreCountedByTheirJobs(t *testing.T) {
	t.Parallel()
	job := func(name, resource string, conditions ...batchv1.JobCondition) *batchv1.Job {
		built := &batchv1.Job{Status: batchv1.JobStatus{Conditions: conditions}}
		built.Namespace, built.Name = "shop", name
		built.Labels = map[string]string{
			v1alpha2.LabelManagedBy: v1alpha2.ManagedBy, v1alpha2.LabelResource: resource, v1alpha2.LabelFunctionName: "of-" + name,
		}
		return built
	}
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		job("runs", v1alpha2.ResourceJob),
		job("ends", v1alpha2.ResourceJob, batchv1.JobCondition{Type: batchv1.JobFailureTarget, Status: corev1.ConditionTrue}),
		job("done", v1alpha2.ResourceJob, batchv1.JobCondition{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}),
		job("failed", v1alpha2.ResourceJob, batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue}),
		job("other", "sweep"),
	).Build()
	running, err := JobReader{reader}.Running(t.Context())
	require.NoError(t, err)
	require.ElementsMatch(t, several("shop/of-runs", "shop/of-ends"), running)
}
