package runner

import (
	"slices"
	"time"
)

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
