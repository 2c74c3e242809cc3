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
	holds   int
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

// announce wakes Start and Hold, which wait for a change; the lock is held.
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

// Hold lets no build begin and waits for those that hold a slot, which none does for longer than a build may take.
// Builds go on after release, or when Hold fails because ctx has ended first.
func (q *Queue) Hold(ctx context.Context) (release func(), err error) {
	q.hold(1)
	release = sync.OnceFunc(func() { q.hold(-1) })
	for {
		changed, busy, err := q.busy(ctx)
		if err != nil {
			release()
			return nil, err
		}
		if !busy {
			return release, nil
		}
		select {
		case <-ctx.Done():
			release()
			return nil, fmt.Errorf("wait for the builds that run: %w", ctx.Err())
		case <-changed:
		case <-q.clock.After(recheck):
		}
	}
}

func (q *Queue) hold(count int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.holds += count
	q.slots.paused = q.holds > 0
	q.announce()
}

func (q *Queue) busy(ctx context.Context) (<-chan struct{}, bool, error) {
	q.mu.Lock()
	changed := q.changed
	q.mu.Unlock()
	running, err := q.jobs.Running(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("count the builds: %w", err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.slots.update(running, q.clock.Now())
	return changed, len(q.slots.taken) > 0, nil
}
