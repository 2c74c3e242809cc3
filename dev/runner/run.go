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

// Run starts and stops replicas until ctx ends. When it returns no replica runs.
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

// step acts on the current state, and returns the time of the next check without a signal.
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

// act executes a plan.
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
		f.poke() // to compute their deadline, or the time of the next try
	}
	if p.start+len(p.drain)+len(p.abandon) > 0 {
		f.announce()
	}
}

// end stops all replicas within EndWithin.
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

// left counts the remaining replicas. The caller holds the lock.
func (f *Functions) left() int {
	n := 0
	for _, u := range f.units {
		n += len(u.replicas)
	}
	return n
}

// stage is the stage of a replica's life.
type stage int

const (
	starting stage = iota
	ready
	draining // ctx ended, or soon will be
)

// replicaView is a snapshot of a replica for decide.
type replicaView struct {
	id      int
	current bool // of the desired version
	stage   stage
	started time.Time
}

// view is a snapshot of a Function for decide.
type view struct {
	now         time.Time
	desired     int
	prepared    bool // a version can be started
	exclusive   bool // two replicas cannot coexist: they would share the debugger's port
	failures    int  // of the desired version, in a row
	retryAt     time.Time
	startWithin time.Duration
	replicas    []replicaView // oldest first
}

// plan is the result of decide.
type plan struct {
	start     int
	drain     []int // by id
	abandon   []int // they were not ready in time
	recheckAt time.Time
}

// decide returns which replicas to start and to stop, as a rolling update: replicas of an old version stay until as many of the desired
// version are ready.
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
			late = append(late, r) // they count as starting until their end counts as a failure
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

// overdue reports whether a replica was not ready in time. With a debugger there is no limit.
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
		missing = min(missing, 1-there) // one attempt at a time
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

// backoff returns the delay after a number of failures in a row.
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
	// finish bounds how long requests in flight of a draining replica may take, and maxFinish the same for a Function with a longer
	// FUNC_TIMEOUT, as in a cluster.
	finish    = 30 * time.Second
	maxFinish = 10 * time.Minute
	// debuggedFinish is short, because a program may wait for its debugger to let it end.
	debuggedFinish = 2 * time.Second
)

// desiredReplicas returns the replicas that a Function should have; scaled is the number that Scale set last, or -1.
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

// finishTime returns the grace period of a draining replica. It is short with a debugger, whose port the next replica needs.
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
