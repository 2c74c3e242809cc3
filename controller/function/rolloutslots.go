package function

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/fair"
)

// rolloutTimeout is for how long a Function may hold a slot. One whose pods do not start keeps others waiting for no longer.
const rolloutTimeout = time.Minute

// rolloutSlots decide which Functions may replace their pods because of changed settings: a bounded number at a time, of which one
// namespace has no more than half, and namespaces in turn. It has no lock.
type rolloutSlots struct {
	held    map[types.NamespacedName]time.Time // since when
	waiting fair.Queue[types.NamespacedName]
	queued  map[types.NamespacedName]struct{} // all that wait
}

func newRolloutSlots() *rolloutSlots {
	return &rolloutSlots{held: map[types.NamespacedName]time.Time{}, queued: map[types.NamespacedName]struct{}{}}
}

// enter reports whether the Function may go on. It waits otherwise, and is among those of next when it may.
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

// leave gives up the slot, or the place among those that wait. It reports whether there was one.
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

// next gives free slots to those that wait.
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
