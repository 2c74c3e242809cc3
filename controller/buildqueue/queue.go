package buildqueue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// recheck is how soon the queue lists the Jobs again although no change was reported.
const recheck = 10 * time.Second

// Jobs knows which builds run.
type Jobs interface {
	// Running lists the Functions whose builds have not ended.
	Running(ctx context.Context) ([]types.NamespacedName, error)
}

// Queue gives out the slots for builds. It is safe for concurrent use.
type Queue struct {
	jobs  Jobs
	clock clock.Clock
	calls chan event.TypedGenericEvent[client.Object]

	mu      sync.Mutex
	slots   *slots
	changed chan struct{} // closed at the next change
}

// NewQueue lets builds run within the limits.
func NewQueue(limits Limits, jobs Jobs, clock clock.Clock) *Queue {
	return &Queue{
		jobs: jobs, clock: clock, slots: newSlots(limits), changed: make(chan struct{}),
		calls: make(chan event.TypedGenericEvent[client.Object]),
	}
}

// Enter asks for a slot. A Function that has to wait is requeued when it is next, and has to ask again within a
// few minutes in any case.
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

// announce wakes Start, which waits for a change; the lock is held.
func (q *Queue) announce() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// Calls has an event for each Function that may build now.
func (q *Queue) Calls() <-chan event.TypedGenericEvent[client.Object] { return q.calls }

// Start calls Functions until ctx ends.
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

// Between runs do while no build of a Function runs, and lets none of it begin meanwhile. It reports false, without running do, when one
// runs or may be about to. Builds of other Functions go on.
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
