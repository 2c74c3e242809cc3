package function

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// rolloutTimeout is for how long a Function may hold a slot. One whose pods do not start keeps others waiting for no longer.
const rolloutTimeout = time.Minute

// rolloutSlots decide which Functions may replace their pods because of changed settings: a bounded number at a time, of which one
// namespace has no more than half, and namespaces in turn. It has no lock.
type rolloutSlots struct {
	held    map[types.NamespacedName]time.Time // since when
	waiting map[string][]types.NamespacedName  // by namespace, the first comes first
	queued  map[types.NamespacedName]struct{}  // all that wait
	turn    []string                           // namespaces that wait
}

func newRolloutSlots() *rolloutSlots {
	return &rolloutSlots{
		held: map[types.NamespacedName]time.Time{}, waiting: map[string][]types.NamespacedName{}, queued: map[types.NamespacedName]struct{}{},
	}
}

// enter reports whether the Function may go on. It waits otherwise, and is among those of next when it may.
func (r *rolloutSlots) enter(fn types.NamespacedName, most int, now time.Time) bool {
	if _, ok := r.held[fn]; ok {
		return true
	}
	r.expire(now)
	if len(r.turn) == 0 && r.fits(fn.Namespace, most) {
		r.held[fn] = now
		return true
	}
	if _, ok := r.queued[fn]; ok {
		return false
	}
	if len(r.waiting[fn.Namespace]) == 0 {
		r.turn = append(r.turn, fn.Namespace)
	}
	r.waiting[fn.Namespace] = append(r.waiting[fn.Namespace], fn)
	r.queued[fn] = struct{}{}
	return false
}

// leave gives up the slot, or the place among those that wait. It reports whether there was one.
func (r *rolloutSlots) leave(fn types.NamespacedName) bool {
	if _, ok := r.held[fn]; ok {
		delete(r.held, fn)
		return true
	}
	if _, ok := r.queued[fn]; !ok {
		return false
	}
	r.drop(fn.Namespace, slices.Index(r.waiting[fn.Namespace], fn))
	return true
}

// next gives free slots to those that wait.
func (r *rolloutSlots) next(most int, now time.Time) (called []types.NamespacedName) {
	r.expire(now)
	for i := 0; i < len(r.turn); {
		namespace := r.turn[i]
		if !r.fits(namespace, most) {
			i++
			continue
		}
		fn := r.waiting[namespace][0]
		r.drop(namespace, 0)
		if i < len(r.turn) && r.turn[i] == namespace { // it has more, and others come first
			r.turn = append(slices.Delete(r.turn, i, i+1), namespace)
		}
		r.held[fn] = now
		called = append(called, fn)
		i = 0
	}
	return called
}

func (r *rolloutSlots) drop(namespace string, at int) {
	delete(r.queued, r.waiting[namespace][at])
	rest := slices.Delete(r.waiting[namespace], at, at+1)
	if r.waiting[namespace] = rest; len(rest) > 0 {
		return
	}
	delete(r.waiting, namespace)
	if place := slices.Index(r.turn, namespace); place >= 0 {
		r.turn = slices.Delete(r.turn, place, place+1)
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
