package dispatch

import (
	"cmp"
	"time"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

// Settled is what became of one attempt. The event is not to be kept: it keeps its data alive.
type Settled struct {
	Event   *cloudevent.Event // nil for a message that is none
	Outcome Outcome
	Attempt int            // from 1
	Status  int            // of the sink's answer, 0 without one
	Reason  failure.Reason // of a Retry or a Reject
	Delay   time.Duration  // of a Retry
	Began   time.Time
	Took    time.Duration
}

// report calls Settled with what became of an attempt.
func (d *Dispatcher) report(j *job, number int, a attempt, dec decision) {
	if d.Settled == nil {
		return
	}
	s := Settled{
		Event: a.event, Outcome: dec.outcome, Attempt: number, Status: a.answer.Status, Delay: dec.delay,
		Began: a.began, Took: a.took,
	}
	if dec.outcome == Retry || dec.outcome == Reject {
		s.Reason = cmp.Or(dec.reason, a.reason)
	}
	d.Settled(j.Message, s)
}
