package function

import (
	"context"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/controller/function/resources"
	"github.com/rouse-run/rouse/internal/fair"
)

// difference is how the live pods differ from the desired ones.
type difference int

const (
	none       difference = iota
	bySpec                // the Function has changed
	bySettings            // only the installation's settings have changed
)

// differs compares the hashes in the Deployment's annotations. Deployments of earlier versions of the controller lack
// the hash of their own template.
func differs(live *appsv1.Deployment, wanted *appsv1ac.DeploymentApplyConfiguration) difference {
	switch {
	case live.Spec.Template.Annotations[resources.AnnotationTemplate] == wanted.Spec.Template.Annotations[resources.AnnotationTemplate]:
		return none
	case live.Annotations[resources.AnnotationOwn] == wanted.Annotations[resources.AnnotationOwn]:
		return bySettings
	default:
		return bySpec
	}
}

// mayFollow reports whether the Deployment may be updated now. A change of the settings affects many Functions at a
// time: a bounded number of those that are awake roll out concurrently, and those that are asleep, which have no pod to
// replace, at once.
func (r *Reconciler) mayFollow(s *scope, wanted *appsv1ac.DeploymentApplyConfiguration) bool {
	key := client.ObjectKeyFromObject(s.fn)
	switch {
	case s.deployment == nil || differs(s.deployment, wanted) != bySettings:
		return true
	case !s.settled:
		return false
	case hasNoPods(s.deployment):
		return true
	default:
		return r.rollouts.enter(key)
	}
}

// releaseSlot releases the slot of a Function that has followed.
func (r *Reconciler) releaseSlot(s *scope) {
	if hasFollowed(s) {
		r.rollouts.leave(client.ObjectKeyFromObject(s.fn))
	}
}

// hasFollowed reports whether the pods of the current settings run, or there are none to wait for. The ready pods of a
// stale Deployment do not count: they have earlier settings.
func hasFollowed(s *scope) bool {
	switch {
	case s.err != nil || s.postponed || s.deployment == nil || s.change != unchanged:
		return false
	case hasNoPods(s.deployment):
		return true
	default:
		return !isStale(s) && rolledOut(s.deployment) && s.deployment.Status.ReadyReplicas >= ptr.Deref(s.deployment.Spec.Replicas, 1)
	}
}

// hasNoPods reports whether a Deployment is asleep.
func hasNoPods(deployment *appsv1.Deployment) bool {
	return ptr.Deref(deployment.Spec.Replicas, 1) == 0 && deployment.Status.Replicas == 0
}

// rolledOut reports whether all pods have the Deployment's template.
func rolledOut(deployment *appsv1.Deployment) bool {
	status := &deployment.Status
	return status.ObservedGeneration >= deployment.Generation && status.UpdatedReplicas >= status.Replicas && status.UnavailableReplicas == 0
}

// stillCalled returns the addresses of earlier settings that pods may still use.
func stillCalled(s *scope) ([]string, error) {
	if len(s.former) == 0 || s.deployment == nil {
		return nil, nil
	}
	if s.held() || !rolledOut(s.deployment) {
		return s.former, nil
	}
	wanted, err := wantedDeployment(s)
	if err != nil {
		return nil, err
	}
	if differs(s.deployment, wanted) == none {
		return nil, nil
	}
	return s.former, nil
}

// settingsFollowers enqueues all Functions whenever the settings change.
func settingsFollowers(changed <-chan struct{}, reader client.Reader) source.Source {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-changed:
					for _, request := range functionRequests(ctx, reader, everyFunction) {
						queue.Add(request)
					}
				}
			}
		}()
		return nil
	})
}

// rollouts grants the slots in which Functions follow changed settings. It is safe for concurrent use.
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

// enter reports whether a Function may replace its pods. A Function that may not is reconciled again when it may.
func (r *rollouts) enter(fn types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.slots.enter(fn, r.most(), r.clock.Now()) {
		return true
	}
	r.raise()
	return false
}

// leave releases the slot or the position of a Function that has followed, or need not.
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

// Start enqueues Functions that were granted a slot until ctx ends. It sleeps while none waits.
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

// rolloutTimeout bounds how long a Function may hold a slot, so that one whose pods do not start does not block the
// others.
const rolloutTimeout = time.Minute

// rolloutSlots decides which Functions may replace their pods because of changed settings: a bounded number at a time,
// at most half of them of one namespace, and namespaces in round-robin order. It has no lock.
type rolloutSlots struct {
	held    map[types.NamespacedName]time.Time // since when
	waiting fair.Queue[types.NamespacedName]
	queued  map[types.NamespacedName]struct{} // the set of Functions in waiting
}

func newRolloutSlots() *rolloutSlots {
	return &rolloutSlots{held: map[types.NamespacedName]time.Time{}, queued: map[types.NamespacedName]struct{}{}}
}

// enter reports whether the Function may proceed. Otherwise the Function waits until next returns it.
func (r *rolloutSlots) enter(fn types.NamespacedName, most int, now time.Time) bool {
	if _, ok := r.held[fn]; ok {
		return true
	}
	r.expire(now)
	if r.waiting.Len() == 0 && r.fits(fn.Namespace, most) {
		r.held[fn] = now
		return true
	}
	if _, ok := r.queued[fn]; !ok {
		r.waiting.Push(fn.Namespace, fn)
		r.queued[fn] = struct{}{}
	}
	return false
}

// leave releases the slot or the position in the queue. It reports whether there was one.
func (r *rolloutSlots) leave(fn types.NamespacedName) bool {
	_, held := r.held[fn]
	delete(r.held, fn)
	_, queued := r.queued[fn]
	if queued {
		delete(r.queued, fn)
		r.waiting.Remove(fn.Namespace, func(other types.NamespacedName) bool { return other == fn })
	}
	return held || queued
}

// next grants free slots to waiting Functions.
func (r *rolloutSlots) next(most int, now time.Time) (called []types.NamespacedName) {
	r.expire(now)
	for {
		fn, ok := r.waiting.PopFrom(func(namespace string) bool { return r.fits(namespace, most) })
		if !ok {
			return called
		}
		delete(r.queued, fn)
		r.held[fn] = now
		called = append(called, fn)
	}
}

// fits reports whether a slot is free for one more Function of a namespace.
func (r *rolloutSlots) fits(namespace string, most int) bool {
	if len(r.held) >= most {
		return false
	}
	own := 0
	for fn := range r.held {
		if fn.Namespace == namespace {
			own++
		}
	}
	return own < (most+1)/2
}

func (r *rolloutSlots) expire(now time.Time) {
	for fn, since := range r.held {
		if now.Sub(since) >= rolloutTimeout {
			delete(r.held, fn)
		}
	}
}
