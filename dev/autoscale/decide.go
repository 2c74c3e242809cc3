package autoscale

import (
	"math"
	"time"
)

// tolerance is how far a backlog may be from what the replicas are meant to carry before their number changes.
const tolerance = 0.1

// bounds are what a Function allows.
type bounds struct {
	low, high int
	cooldown  time.Duration
	settle    time.Duration // how long a backlog has to be small before replicas go
}

// observation is what a poll learned. A failed one has no values.
type observation struct {
	active bool
	value  float64 // the backlog
	target float64 // what one replica is meant to carry
	failed bool
}

// peak is a number of replicas that was once right.
type peak struct {
	at       time.Time
	replicas int
}

// state is what is known of a Function. It is a plain value without a lock or a clock.
type state struct {
	replicas   int
	lastActive time.Time
	holds      int // HTTP requests that need it awake
	peaks      []peak
}

// bound brings the replicas between the bounds, without waking what may sleep.
func (s *state) bound(b bounds) {
	s.replicas = min(max(s.replicas, b.low), b.high)
}

// wake takes notice of work that is there.
func (s *state) wake(now time.Time, b bounds) {
	s.lastActive = now
	if s.replicas == 0 {
		s.replicas = min(max(b.low, 1), b.high)
	}
}

// hold takes notice of a request that needs the Function awake.
func (s *state) hold(now time.Time, b bounds) {
	s.holds++
	s.wake(now, b)
}

// release takes notice of its end, which is a sign of work too.
func (s *state) release(now time.Time) {
	s.holds--
	s.lastActive = now
}

// observe decides after a poll.
func (s *state) observe(o observation, now time.Time, b bounds) {
	if o.active && !o.failed || s.holds > 0 {
		s.wake(now, b)
	}
	if o.failed {
		return
	}
	if s.replicas > 0 {
		s.replicas = min(max(s.stabilised(s.desired(o), now, b), b.low, 1), b.high)
	}
	if !o.active && s.holds == 0 && b.low == 0 && now.After(s.lastActive.Add(b.cooldown)) {
		s.replicas, s.peaks = 0, nil
	}
}

// desired is how many replicas the backlog asks for.
func (s *state) desired(o observation) int {
	if o.target <= 0 {
		return s.replicas
	}
	if math.Abs(1-o.value/(o.target*float64(s.replicas))) <= tolerance {
		return s.replicas
	}
	return int(min(math.Ceil(o.value/o.target), math.MaxInt32))
}

// stabilised is the most that was asked for of late.
func (s *state) stabilised(desired int, now time.Time, b bounds) int {
	kept := s.peaks[:0]
	for _, p := range s.peaks {
		if now.Before(p.at.Add(b.settle)) {
			kept = append(kept, p)
		}
	}
	kept = append(kept, peak{at: now, replicas: min(desired, b.high)})
	s.peaks = kept
	highest := 0
	for _, p := range s.peaks {
		highest = max(highest, p.replicas)
	}
	return highest
}
