package activator

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
)

const (
	// announcementLifetime is how long an announcement that a Function is idle holds. The scaler repeats it every 3 s.
	announcementLifetime = 15 * time.Second
	// settleTime is how long a pod has to be ready before activators are removed.
	settleTime = 3 * time.Second
	// flappingTime replaces settleTime for a Function whose activators had been gone for less than that.
	flappingTime = 30 * time.Second
)

// memory is the state of a Function between two decisions.
type memory struct {
	readySince time.Time // zero: no pod is ready
	announced  time.Time // when the Function was last announced to be idle
	listed     bool      // its activators were to be listed
	ended      time.Time // when they were last removed
	flapping   bool      // they were soon listed again
}

// firstSight returns the initial state of a Function for a new leader. A Function whose activators an earlier leader
// listed may be about to sleep.
func firstSight(listed bool, now time.Time) memory {
	if !listed {
		return memory{}
	}
	return memory{listed: true, announced: now}
}

// next decides whether activators are listed beside ready pods. after is when to decide again if they are listed for a limited time.
// A pod that has been ready for a short time keeps them listed, but is no reason to list them: a new leader does not know
// how long pods have been ready.
func (m memory) next(ready bool, now time.Time) (decided memory, after time.Duration) {
	switch {
	case !ready:
		m.readySince = time.Time{}
	case m.readySince.IsZero():
		m.readySince = now
	}
	listed := !ready
	if ready {
		until := m.announced.Add(announcementLifetime)
		if m.listed {
			until = later(until, m.readySince.Add(m.settle()))
		}
		after = max(until.Sub(now), 0)
		listed = after > 0
	}
	switch {
	case listed && !m.listed:
		m.flapping = now.Sub(m.ended) < flappingTime
	case !listed && m.listed:
		m.ended = now
	}
	m.listed = listed
	return m, after
}

// settle returns how long pods have to be ready.
func (m memory) settle() time.Duration {
	if m.flapping {
		return flappingTime
	}
	return settleTime
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// memories holds the state of all Functions that HTTP may wake. It is safe for concurrent use.
type memories struct {
	mu         sync.Mutex
	byFunction map[types.NamespacedName]memory
}

func newMemories() *memories { return &memories{byFunction: map[types.NamespacedName]memory{}} }

// decide records the observed state of a Function: whether a pod is ready and, the first time, whether activators are
// listed.
func (m *memories) decide(function types.NamespacedName, ready, seenListed bool, now time.Time) (listed bool, after time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.byFunction[function]
	if !ok {
		known = firstSight(seenListed, now)
	}
	known, after = known.next(ready, now)
	m.byFunction[function] = known
	return known.listed, after
}

// announce records that a Function is idle. It reports whether there is something to decide: not for a Function that
// HTTP does not wake, and not for one whose activators are listed.
func (m *memories) announce(function types.NamespacedName, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.byFunction[function]
	if !ok {
		return false
	}
	known.announced = now
	m.byFunction[function] = known
	return !known.listed
}

// forget reports whether the Function had any state.
func (m *memories) forget(function types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.byFunction[function]
	delete(m.byFunction, function)
	return ok
}

// listed counts the Functions whose activators are listed.
func (m *memories) listed() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	count := 0
	for _, known := range m.byFunction {
		if known.listed {
			count++
		}
	}
	return count
}

// Announcements reports which Functions are idle.
type Announcements interface {
	// WatchIdle calls apply for each announced Function until ctx ends.
	WatchIdle(ctx context.Context, apply func(types.NamespacedName)) error
}

// listener records announcements. A wrong one lists activators that are not needed, which is harmless.
type listener struct {
	announcements Announcements
	memories      *memories
	clock         clock.PassiveClock
	requests      chan<- event.GenericEvent
}

// Start listens until ctx ends.
func (l *listener) Start(ctx context.Context) error {
	return l.announcements.WatchIdle(ctx, func(function types.NamespacedName) {
		if l.memories.announce(function, l.clock.Now()) {
			send(ctx, l.requests, &v1alpha2.Function{ObjectMeta: metav1.ObjectMeta{Namespace: function.Namespace, Name: function.Name}})
		}
	})
}

func send(ctx context.Context, requests chan<- event.GenericEvent, object client.Object) {
	select {
	case requests <- event.GenericEvent{Object: object}:
	case <-ctx.Done():
	}
}
