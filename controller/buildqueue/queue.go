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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
)

// recheck is how soon the queue lists the Jobs again although no change was reported.
const recheck = 10 * time.Second

// Jobs lists the running builds.
type Jobs interface {
	// Running lists the Functions whose builds have not ended.
	Running(ctx context.Context) ([]types.NamespacedName, error)
}

// Queue grants the slots for builds. It is safe for concurrent use.
type Queue struct {
	jobs  Jobs
	clock clock.Clock
	calls chan event.TypedGenericEvent[client.Object]

	mu      sync.Mutex
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
	running, err := q.jobs.Running(ctx)
	if err != nil {
		return QueueStatus{}, fmt.Errorf("count the builds: %w", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.slots.enter(fn, running, q.clock.Now()), nil
}

// Leave gives up the position, or the slot for which no Job was created.
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
	changed := q.changed // before the count, so that no change is missed
	q.mu.Unlock()
	running, err := q.jobs.Running(ctx)
	if err != nil {
		return changed, nil // listed again soon
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return changed, q.slots.next(running, q.clock.Now())
}

// Between runs do while no build of a Function runs, and lets none of it start meanwhile. It returns false without
// running do when one runs or may be about to start. Builds of other Functions are not affected.
func (q *Queue) Between(ctx context.Context, fn types.NamespacedName, do func() error) (done bool, err error) {
	running, err := q.jobs.Running(ctx)
	if err != nil {
		return false, fmt.Errorf("count the builds: %w", err)
	}
	if !q.exclude(fn, running) {
		return false, nil
	}
	defer q.admit(fn)
	return true, do()
}

func (q *Queue) exclude(fn types.NamespacedName, running []types.NamespacedName) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.slots.exclude(fn, running, q.clock.Now())
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
// because its pod runs. Anyone can set labels, so a Job counts only if it has the name and the owner of a Function's
// build.
func (r JobReader) Running(ctx context.Context) ([]types.NamespacedName, error) {
	jobs := &batchv1.JobList{}
	err := r.List(ctx, jobs, client.UnsafeDisableDeepCopy, client.MatchingLabels{
		v1alpha2.LabelManagedBy: v1alpha2.ManagedBy, v1alpha2.LabelResource: v1alpha2.ResourceJob,
	})
	if err != nil {
		return nil, fmt.Errorf("list the build Jobs: %w", err)
	}
	owners := map[types.NamespacedName]types.UID{}
	var running []types.NamespacedName
	for i := range jobs.Items {
		job := &jobs.Items[i]
		key, owner, ok := builtBy(job)
		if !ok || Ended(job) || slices.Contains(running, key) {
			continue
		}
		uid, known := owners[key]
		if !known {
			if uid, err = r.uid(ctx, key); err != nil {
				return nil, err
			}
			owners[key] = uid
		}
		if uid == owner {
			running = append(running, key)
		}
	}
	return running, nil
}

// uid returns an empty UID when there is no such Function.
func (r JobReader) uid(ctx context.Context, key types.NamespacedName) (types.UID, error) {
	fn := &v1alpha2.Function{}
	if err := r.Get(ctx, key, fn); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("get the Function of a build: %w", err)
	}
	return fn.UID, nil
}

// buildID matches the end of the name of a build's Job.
var buildID = regexp.MustCompile(`-build-([0-9a-f]{10})$`)

// builtBy returns the Function that a Job builds, according to its name and its owner.
func builtBy(job *batchv1.Job) (fn types.NamespacedName, uid types.UID, ok bool) {
	owner := metav1.GetControllerOf(job)
	id := buildID.FindStringSubmatch(job.Name)
	if owner == nil || owner.UID == "" || owner.Kind != resources.FunctionKind || id == nil {
		return fn, "", false
	}
	if group, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || group.Group != v1alpha2.GroupVersion.Group {
		return fn, "", false
	}
	fn = types.NamespacedName{Namespace: job.Namespace, Name: owner.Name}
	named := &v1alpha2.Function{ObjectMeta: metav1.ObjectMeta{Namespace: fn.Namespace, Name: fn.Name}}
	return fn, owner.UID, job.Name == resources.JobName(named, id[1]) && job.Labels[v1alpha2.LabelFunctionName] == fn.Name
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
