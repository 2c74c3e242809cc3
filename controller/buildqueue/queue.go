package buildqueue

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
)

// recheck is how soon the queue lists the Jobs again although no change was reported.
const recheck = 10 * time.Second

// Jobs lists the running builds, from a cache.
type Jobs interface {
	// Running lists the Functions whose builds have not ended.
	Running(ctx context.Context) ([]types.NamespacedName, error)
}

// Queue grants the slots for builds. It is safe for concurrent use.
type Queue struct {
	jobs  Jobs
	clock clock.Clock
	calls chan event.TypedGenericEvent[client.Object]

	mu      sync.Mutex // also held while the Jobs are listed: a list that another one overtook would free slots in use
	slots   *slots
	changed chan struct{} // closed at the next change
}

// NewQueue returns a queue that limits the concurrent builds.
func NewQueue(limits Limits, jobs Jobs, clock clock.Clock) *Queue {
	return &Queue{
		jobs: jobs, clock: clock, slots: newSlots(limits), changed: make(chan struct{}),
		calls: make(chan event.TypedGenericEvent[client.Object]),
	}
}

// Enter requests a slot. A Function that has to wait is requeued when it is next, and has to request the slot again
// within a few minutes in any case.
func (q *Queue) Enter(ctx context.Context, fn types.NamespacedName) (QueueStatus, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	running, err := q.jobs.Running(ctx)
	if err != nil {
		return QueueStatus{}, fmt.Errorf("count the builds: %w", err)
	}
	return q.slots.enter(fn, running, q.clock.Now()), nil
}

// Began reports that the Job for which a slot was granted exists, although the cache may not show it yet.
func (q *Queue) Began(fn types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.slots.began(fn)
}

// Leave gives up the position, or the slot as soon as no Job runs.
func (q *Queue) Leave(fn types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, waits := q.slots.waiting[fn]
	_, holds := q.slots.taken[fn]
	if !waits && !holds {
		return
	}
	q.slots.leave(fn)
	q.announce()
}

// Changed notifies the queue that a build has ended.
func (q *Queue) Changed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.announce()
}

// announce wakes Start, which waits for a change. The caller holds the lock.
func (q *Queue) announce() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// Calls receives an event for each Function that may build now.
func (q *Queue) Calls() <-chan event.TypedGenericEvent[client.Object] { return q.calls }

// Start sends Functions to Calls until ctx ends.
func (q *Queue) Start(ctx context.Context) error {
	for {
		changed, next := q.next(ctx)
		for _, fn := range next {
			object := &v1alpha2.Function{}
			object.Namespace, object.Name = fn.Namespace, fn.Name
			select {
			case q.calls <- event.TypedGenericEvent[client.Object]{Object: object}:
			case <-ctx.Done():
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-q.clock.After(recheck):
		}
	}
}

func (q *Queue) next(ctx context.Context) (<-chan struct{}, []types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	running, err := q.jobs.Running(ctx)
	if err != nil {
		return q.changed, nil // listed again soon
	}
	return q.changed, q.slots.next(running, q.clock.Now())
}

// Between runs do while no build of a Function runs, and lets none of it start meanwhile. It returns false without
// running do when one runs or may be about to start. Builds of other Functions are not affected.
func (q *Queue) Between(ctx context.Context, fn types.NamespacedName, do func() error) (done bool, err error) {
	if excluded, err := q.exclude(ctx, fn); !excluded || err != nil {
		return false, err
	}
	defer q.admit(fn)
	return true, do()
}

func (q *Queue) exclude(ctx context.Context, fn types.NamespacedName) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	running, err := q.jobs.Running(ctx)
	if err != nil {
		return false, fmt.Errorf("count the builds: %w", err)
	}
	return q.slots.exclude(fn, running, q.clock.Now()), nil
}

func (q *Queue) admit(fn types.NamespacedName) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.slots.excluded, fn)
	q.announce()
}

// JobReader finds the running builds by their Jobs.
type JobReader struct{ client.Reader }

// Running lists the Functions with a Job that has not ended, each once. A Job that is being deleted still counts,
// because its pod runs, and so does one whose Function is gone. Anyone can set labels, so a Job counts only if it has
// the name of the Function's build.
func (r JobReader) Running(ctx context.Context) ([]types.NamespacedName, error) {
	jobs := &batchv1.JobList{}
	err := r.List(ctx, jobs, client.UnsafeDisableDeepCopy, client.MatchingLabels{
		v1alpha2.LabelManagedBy: v1alpha2.ManagedBy, v1alpha2.LabelResource: v1alpha2.ResourceJob,
	})
	if err != nil {
		return nil, fmt.Errorf("list the build Jobs: %w", err)
	}
	var running []types.NamespacedName
	for i := range jobs.Items {
		fn, ok := builtBy(&jobs.Items[i])
		if ok && !Ended(&jobs.Items[i]) && !slices.Contains(running, fn) {
			running = append(running, fn)
		}
	}
	return running, nil
}

// buildID matches the end of the name of a build's Job.
var buildID = regexp.MustCompile(`-build-([0-9a-f]{10})$`)

// builtBy returns the Function that a Job builds, according to its label and its name.
func builtBy(job *batchv1.Job) (fn types.NamespacedName, ok bool) {
	id := buildID.FindStringSubmatch(job.Name)
	if id == nil {
		return fn, false
	}
	named := &v1alpha2.Function{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Labels[v1alpha2.LabelFunctionName]}}
	return client.ObjectKeyFromObject(named), job.Name == resources.JobName(named, id[1])
}

// Ended reports whether a Job, and so its pod, has ended.
func Ended(job *batchv1.Job) bool { return Succeeded(job) || Failed(job) }

// Succeeded reports whether a Job has completed.
func Succeeded(job *batchv1.Job) bool { return is(job, batchv1.JobComplete) }

// Failed reports whether a Job has failed for good.
func Failed(job *batchv1.Job) bool { return is(job, batchv1.JobFailed) }

func is(job *batchv1.Job, kind batchv1.JobConditionType) bool {
	for _, condition := range job.Status.Conditions {
		if condition.Type == kind {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
