package activator

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/httplimit"
)

const (
	// waitingCost is the memory of a request that waits: its connection's buffers, its goroutines, and headers of common size.
	waitingCost = 32 << 10
	// A gateway wakes one Function at a time for so many places of requests that wait, and one caller wakes an eighth of these.
	placesPerWake        = 4
	placesPerCallersWake = 32
)

// waiting shares out what Functions without a pod cost the others: the places of requests that wait, and the Functions that are woken at
// a time. Each has a share for the namespace of the Functions, and one for the address of the caller.
type waiting struct {
	places, wakes shares

	mu    sync.Mutex
	woken map[wake]int // how many requests wait for it
}

// shares are those of namespaces and of callers.
type shares struct{ namespaces, callers *fair.Pool }

// wake is a Function that is woken, by a caller or at all.
type wake struct {
	function types.NamespacedName
	caller   string // empty: at all
}

func newWaiting(bytes int64) *waiting {
	places := bytes / waitingCost
	wakes, most := max(1, places/placesPerWake), max(1, places/placesPerCallersWake)
	return &waiting{
		places: shares{fair.NewPool(fair.Limits{Total: places}), fair.NewPool(fair.Limits{Total: places})},
		wakes:  shares{fair.NewPool(fair.Limits{Total: wakes}), fair.NewPool(fair.Limits{Total: places, PerKey: most})},
		woken:  map[wake]int{},
	}
}

// enter takes a place for a request, until leave.
func (w *waiting) enter(function types.NamespacedName, from httplimit.Key) *refusal {
	if !w.places.namespaces.TryAcquire(function.Namespace, 1) {
		return overShare(function, "as many requests wait for Functions of its namespace as may")
	}
	if !from.Unshared && !w.places.callers.TryAcquire(from.Name, 1) {
		w.places.namespaces.Release(function.Namespace, 1)
		return overShare(function, "as many requests of your address wait for Functions as may")
	}
	if refused := w.wake(function, from); refused != nil {
		w.vacate(function, from)
		return refused
	}
	return nil
}

func (w *waiting) leave(function types.NamespacedName, from httplimit.Key) {
	w.mu.Lock()
	w.rest(wake{function: function}, w.wakes.namespaces, function.Namespace)
	if !from.Unshared {
		w.rest(wake{function, from.Name}, w.wakes.callers, from.Name)
	}
	w.mu.Unlock()
	w.vacate(function, from)
}

func (w *waiting) vacate(function types.NamespacedName, from httplimit.Key) {
	w.places.namespaces.Release(function.Namespace, 1)
	if !from.Unshared {
		w.places.callers.Release(from.Name, 1)
	}
}

// wake counts a request for a Function, which is woken with the first one.
func (w *waiting) wake(function types.NamespacedName, from httplimit.Key) *refusal {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.rouse(wake{function: function}, w.wakes.namespaces, function.Namespace) {
		return overShare(function, "as many Functions of its namespace are being woken as may be at a time")
	}
	if !from.Unshared && !w.rouse(wake{function, from.Name}, w.wakes.callers, from.Name) {
		w.rest(wake{function: function}, w.wakes.namespaces, function.Namespace)
		return overShare(function, "your address is waking as many Functions as it may at a time")
	}
	return nil
}

func (w *waiting) rouse(what wake, from *fair.Pool, key string) bool {
	if w.woken[what] == 0 && !from.TryAcquire(key, 1) {
		return false
	}
	w.woken[what]++
	return true
}

func (w *waiting) rest(what wake, from *fair.Pool, key string) {
	if w.woken[what]--; w.woken[what] == 0 {
		delete(w.woken, what)
		from.Release(key, 1)
	}
}

// requests returns how many wait.
func (w *waiting) requests() int64 {
	held, _ := w.places.namespaces.Stats()
	return held
}

func overShare(function types.NamespacedName, why string) *refusal {
	return &refusal{overloaded, http.StatusServiceUnavailable, time.Second, fmt.Sprintf("Function %s sleeps, and %s", function, why)}
}
