package function

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

// rollouts give out the slots for Functions that follow changed settings. It is safe for concurrent use.
type rollouts struct {
	most  func() int
	clock clock.WithTicker
	calls chan event.GenericEvent
	wake  chan struct{}

	mu    sync.Mutex
	slots *rolloutSlots
}

func newRollouts(most func() int, clock clock.WithTicker) *rollouts {
	return &rollouts{
		most: most, clock: clock, slots: newRolloutSlots(),
		calls: make(chan event.GenericEvent), wake: make(chan struct{}, 1),
	}
}

// enter reports whether a Function may replace its pods. One that may not is reconciled again when it may.
func (r *rollouts) enter(fn types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.slots.enter(fn, r.most(), r.clock.Now()) {
		return true
	}
	r.raise()
	return false
}

// leave says that a Function has followed, or need not.
func (r *rollouts) leave(fn types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.slots.leave(fn) {
		r.raise()
	}
}

func (r *rollouts) raise() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (r *rollouts) NeedLeaderElection() bool { return true }

// Start calls the Functions whose turn it is until ctx ends. It does nothing while none waits.
func (r *rollouts) Start(ctx context.Context) error {
	const recheck = time.Second // for slots that are held for too long
	for {
		called, waits := r.next()
		for _, fn := range called {
			object := &v1alpha2.Function{}
			object.Namespace, object.Name = fn.Namespace, fn.Name
			select {
			case r.calls <- event.GenericEvent{Object: object}:
			case <-ctx.Done():
				return nil
			}
		}
		var again <-chan time.Time
		if waits {
			again = r.clock.After(recheck)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		case <-again:
		}
	}
}

func (r *rollouts) next() (called []types.NamespacedName, waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	called = r.slots.next(r.most(), r.clock.Now())
	return called, r.slots.waiting.Len() > 0
}
