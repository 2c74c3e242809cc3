package wake

import "time"

const (
	// gracePeriod is the time that KEDA has for the first replica. It takes 11 ms of a wake when nothing else wakes.
	gracePeriod = time.Second
	// lookEvery is the pause between two looks for the replica that KEDA sets.
	lookEvery = 50 * time.Millisecond
	// lateFor is the time that KEDA has, from the beginning of a wake, to take part in one whose first replica the controller has set.
	lateFor = 8 * time.Second
	// holds is the time for which an announcement is true. The scaler repeats it every second while it is.
	holds = 1500 * time.Millisecond
	// wakeEnds is the time without an announcement after which the next one begins another wake. The scaler repeats it every second.
	wakeEnds = 5 * time.Second
)

// want is what the scaler has announced in one wake of a Function.
type want struct {
	replicas    int
	first, last time.Time // announcements
	wrote       int       // replicas that were set last, 0 before
}

// announced returns the want after an announcement.
func (w want) announced(replicas int, now time.Time) want {
	if w.over(now) {
		w = want{first: now}
	}
	w.replicas, w.last = replicas, now
	return w
}

// over reports whether the wake has ended.
func (w want) over(now time.Time) bool { return now.Sub(w.last) >= wakeEnds }

// early reports whether KEDA has the time that there is, whatever the state is.
func (w want) early(now time.Time) bool { return w.replicas <= 1 && now.Sub(w.first) < gracePeriod }

// state is the state of a Function's Deployment and of what scales it.
type state struct {
	replicas  int
	low, high int // bounds of the Function
	paused    bool
	active    time.Time // when KEDA last found work
	alone     bool      // there is no KEDA, and an HPA looks for work every 15 s
}

// decide returns the replicas to set, 0 for none, and otherwise the time after which to look again, 0 for the next announcement.
//
// KEDA sets the first replicas at any time after it has read that there is none. In its place, the controller sets as many as KEDA would:
// more would be taken away again. An HPA without KEDA wakes nothing in time, and takes the replicas for its own.
func decide(w want, s state, now time.Time) (replicas int, again time.Duration) {
	goal, first := min(w.replicas, s.high), max(s.low, 1)
	switch {
	case s.paused, s.replicas >= goal, now.Sub(w.last) > holds:
		return 0, 0
	case s.alone:
		return decideAlone(w, s, goal), 0
	case s.replicas == 0 && now.Sub(w.first) < gracePeriod:
		return 0, lookEvery
	case s.replicas == 0:
		return first, 0
	case s.replicas <= first && s.replicas == w.wrote && !w.takesPart(s.active) && now.Sub(w.first) < lateFor:
		return 0, 0
	case s.replicas <= first, s.replicas == w.wrote:
		return goal, 0
	}
	return 0, 0 // the HPA has decided
}

// decideAlone returns the replicas to set where there is no KEDA, 0 for those that the HPA has set.
func decideAlone(w want, s state, goal int) (replicas int) {
	if s.replicas <= max(s.low, 1) || s.replicas == w.wrote {
		return goal
	}
	return 0
}

// takesPart reports whether KEDA has found work in this wake. It records whole seconds.
func (w want) takesPart(active time.Time) bool { return !active.Before(w.first.Truncate(time.Second)) }
