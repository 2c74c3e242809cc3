package runner

import (
	"context"
	"math"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/workload"
)

// Run starts and stops what has to be started and stopped until ctx ends. When it returns nothing runs any more.
func (f *Functions) Run(ctx context.Context) error {
	preparing, cancel := context.WithCancel(ctx)
	defer f.activators.Close()
	defer f.running.Wait()
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Stop()
		if recheckAt := f.step(preparing, time.Now()); !recheckAt.IsZero() {
			timer.Reset(time.Until(recheckAt))
		}
		select {
		case <-ctx.Done():
			f.end()
			return nil
		case <-f.wake:
		case <-timer.C:
		}
	}
}

// step does what is to be done now, and returns when to check again if nothing happens before.
func (f *Functions) step(ctx context.Context, now time.Time) (recheckAt time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	earlier := func(at time.Time) {
		if !at.IsZero() && (recheckAt.IsZero() || at.Before(recheckAt)) {
			recheckAt = at
		}
	}
	for _, u := range f.sorted() {
		f.serve(u)
		f.prepare(ctx, u)
		earlier(f.settle(u, now))
		p := decide(u.view(now, f.options.StartWithin))
		earlier(p.recheckAt)
		f.act(u, p, now)
		if u.removed && len(u.replicas) == 0 && u.preparation.cancel == nil {
			delete(f.units, u.name)
			f.deps.Feed.Forget(u.name)
		}
	}
	return recheckAt
}

// act does what was decided.
func (f *Functions) act(u *unit, p plan, now time.Time) {
	for _, id := range p.drain {
		f.drain(u, u.replica(id))
	}
	for _, id := range p.abandon {
		f.abandon(u.replica(id))
	}
	for range p.start {
		if err := f.start(u, now); err != nil {
			f.fail(u, placed(u.spec.At, err.Error()))
			break
		}
	}
	if p.start > 0 {
		f.poke() // for the time by which they have to be ready, or of the next try
	}
	if p.start+len(p.drain)+len(p.abandon) > 0 {
		f.announce()
	}
}

// end stops everything, within the time that is left for it.
func (f *Functions) end() {
	f.mu.Lock()
	close(f.over)
	f.version++
	var fronts []*front
	for _, u := range f.units {
		if u.front != nil {
			fronts = append(fronts, u.front)
		}
		for _, r := range u.replicas {
			r.stage = draining
			f.running.Go(func() { r.process.Stop(f.options.EndWithin) })
		}
	}
	f.announce()
	f.mu.Unlock()
	for {
		f.mu.Lock()
		left, change := f.left(), f.change
		f.mu.Unlock()
		if left == 0 {
			break
		}
		<-change
	}
	for _, front := range fronts {
		front.close()
	}
}

// left counts the replicas that are still there; called with the lock held.
func (f *Functions) left() int {
	n := 0
	for _, u := range f.units {
		n += len(u.replicas)
	}
	return n
}

// stage is how far a replica is.
type stage int

const (
	starting stage = iota
	ready
	draining // it was asked to stop, or soon will be
)

// replicaView is a replica as decide sees it.
type replicaView struct {
	id      int
	current bool // of the version that is wanted
	stage   stage
	started time.Time
}

// view is a Function as decide sees it.
type view struct {
	now         time.Time
	desired     int
	prepared    bool // there is a version to start
	exclusive   bool // two replicas cannot be there at once: a debugger's port is one
	failures    int  // of the wanted version, one after the other
	retryAt     time.Time
	startWithin time.Duration
	replicas    []replicaView // oldest first
}

// plan is what to do now.
type plan struct {
	start     int
	drain     []int // by id
	abandon   []int // they took too long to start
	recheckAt time.Time
}

// decide plans what to start and what to stop. Replicas of an old version stay until as many of the wanted one are
// ready; the wanted version starts beside them.
func decide(v view) plan {
	var p plan
	var current, old, late []replicaView
	leaving := 0
	for _, r := range v.replicas {
		switch {
		case r.stage == draining:
			leaving++
		case v.overdue(r, &p):
			p.abandon = append(p.abandon, r.id)
			late = append(late, r) // they count as started until their end is counted as a failure
		case r.current:
			current = append(current, r)
		default:
			old = append(old, r)
		}
	}
	slices.SortStableFunc(current, func(a, b replicaView) int { return int(b.stage) - int(a.stage) }) // ready ones first
	kept := current[:min(len(current), v.desired)]
	for _, r := range current[len(kept):] {
		p.drain = append(p.drain, r.id)
	}
	serving := countReady(kept)
	p.drainOld(old, v, serving)
	if v.exclusive && len(old)+leaving > 0 {
		return p
	}
	p.startMissing(v, len(kept)+len(late), serving)
	return p
}

// overdue reports whether a replica takes too long to start. A debugger may hold it as long as it likes.
func (v *view) overdue(r replicaView, p *plan) bool {
	if r.stage != starting || v.exclusive {
		return false
	}
	end := r.started.Add(v.startWithin)
	if v.now.Before(end) {
		p.recheck(end)
		return false
	}
	return true
}

func (p *plan) drainOld(old []replicaView, v view, serving int) {
	needed := v.desired - serving
	if v.exclusive {
		needed = 0
	}
	for _, r := range old {
		if r.stage == ready && needed > 0 {
			needed--
			continue
		}
		p.drain = append(p.drain, r.id)
	}
}

func (p *plan) startMissing(v view, there, serving int) {
	missing := v.desired - there
	if v.failures > 0 && serving == 0 {
		missing = min(missing, 1-there) // one that tries is enough
	}
	switch {
	case missing <= 0 || !v.prepared:
	case v.now.Before(v.retryAt):
		p.recheck(v.retryAt)
	default:
		p.start = missing
	}
}

func (p *plan) recheck(at time.Time) {
	if p.recheckAt.IsZero() || at.Before(p.recheckAt) {
		p.recheckAt = at
	}
}

func countReady(replicas []replicaView) int {
	n := 0
	for _, r := range replicas {
		if r.stage == ready {
			n++
		}
	}
	return n
}

// backoff is how long to wait after so many failures one after the other.
func backoff(failures int, first, most time.Duration) time.Duration {
	wait := first
	for range failures - 1 {
		if wait *= 2; wait >= most {
			return most
		}
	}
	return min(wait, most)
}

const (
	// finish is how long busy requests of a replica may take that has to end, and maxFinish the same for a Function
	// with a longer FUNC_TIMEOUT, as in a cluster.
	finish    = 30 * time.Second
	maxFinish = 10 * time.Minute
	// debuggedFinish is short: a program may wait for its debugger to let it end.
	debuggedFinish = 2 * time.Second
)

// desiredReplicas is how many replicas a Function shall have when scaled is what it was last scaled to, or -1.
func desiredReplicas(fn manifest.Function, scaled int, exclusive bool) int {
	n := int(ptr.Deref(fn.Spec.Replicas, 1))
	if fn.Spec.ScaleConfig != nil {
		low, high := workload.ReplicaBounds(fn.Function)
		n = min(max(scaled, int(low)), int(max(low, high)))
	}
	if exclusive {
		n = min(n, 1)
	}
	return max(n, 0)
}

// finishTime is how long a replica may go on with what it does when it has to end. One with a debugger is in the way of
// the next.
func finishTime(fn manifest.Function, exclusive bool) time.Duration {
	if exclusive {
		return debuggedFinish
	}
	allowed := finish
	if timeout := fn.Timeout(); timeout > finish {
		allowed = min(time.Duration(math.Ceil(timeout.Seconds()))*time.Second, maxFinish)
	}
	return allowed
}
