package schedule

import (
	"encoding/binary"
	"hash/fnv"
	"time"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
)

// Tick is one event of a Schedule.
type Tick struct {
	// Due is when it is due, without jitter.
	Due time.Time
	// At is the same with jitter.
	At time.Time
	// Missed is how many due times before it are left out.
	Missed int
}

// Decision is what to do about a Schedule now.
type Decision struct {
	// Ticks are due, in the order of their times.
	Ticks []Tick
	// Missed is the number of due times that are left out, whether a tick carries it or not.
	Missed int
	// Through is the last due time that the decision covers; zero if it covers none.
	Through time.Time
	// Next is when to decide again, with the jitter of what is due then; zero if nothing will be due.
	Next time.Time
}

// maxSteps bounds the due times that one decision looks at. Of those before only the latest half of the time is.
const maxSteps = 10_000

// Decide returns what is due at now, after last, which is the last due time that is settled, or the time from which the
// Schedule counts.
func (p Plan) Decide(last, now time.Time) Decision {
	var d Decision
	var due []time.Time
	for steps := 0; ; steps++ {
		next, ok := p.Next(last)
		if !ok {
			break
		}
		if at := p.at(next); at.After(now) {
			d.Next = at
			break
		}
		if steps == maxSteps {
			d.Missed += len(due)
			due, steps, last = due[:0], 0, last.Add(now.Sub(last)/2)
			continue
		}
		due, last = append(due, next), next
	}
	if len(due) == 0 {
		return d
	}
	d.Through = due[len(due)-1]
	kept := p.keep(due, now)
	d.Missed += len(due) - len(kept)
	for i, each := range kept {
		tick := Tick{Due: each, At: p.at(each)}
		if i == 0 {
			tick.Missed = d.Missed
		}
		d.Ticks = append(d.Ticks, tick)
	}
	return d
}

// keep returns those of the due times that are published, in their order.
func (p Plan) keep(due []time.Time, now time.Time) []time.Time {
	if p.deadline > 0 {
		for len(due) > 0 && now.Sub(p.at(due[0])) > p.deadline {
			due = due[1:]
		}
	}
	if p.policy == v1alpha1.MissedSkip { // within the deadline nothing is missed
		return due
	}
	most := 1
	if p.policy == v1alpha1.MissedAll {
		most = p.limit
	}
	return due[max(len(due)-most, 0):]
}

// at is when a due time is due with its jitter. It is the same wherever it is computed, and before the next due time.
func (p Plan) at(due time.Time) time.Time {
	if p.jitter <= 0 {
		return due
	}
	within := p.jitter
	if next, ok := p.Next(due); ok {
		within = min(within, next.Sub(due)/2)
	}
	if within <= 0 {
		return due
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(p.uid))
	_, _ = hash.Write(binary.BigEndian.AppendUint64(nil, uint64(due.UnixNano())))
	return due.Add(time.Duration(hash.Sum64() % uint64(within)))
}
