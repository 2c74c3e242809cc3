package scaler

import (
	"errors"
	"fmt"
	"time"
)

// errUnknown is why a question about a backlog cannot be answered.
var errUnknown = errors.New("backlog is not known")

// phase reports whether a Function has work.
type phase int

const (
	phaseUnknown phase = iota
	phaseIdle
	phaseActive
)

// cause is what turned a Function active.
type cause string

const (
	causePublish cause = "publish"
	causePoll    cause = "poll"
	causeRequest cause = "request"
)

// edge is one change from idle, or unknown, to active.
type edge struct {
	number uint64 // counts the edges of a Function; 0 before the first
	at     time.Time
	cause  cause
}

// activity decides, from publishes and readings, whether a Function is active
// and what its backlog is. It is a plain value without a lock or a clock. Its
// edges are also those of calls over HTTP.
type activity struct {
	threshold float64 // active means a backlog above this

	phase   phase
	backlog uint64
	seen    time.Time // when the newest evidence for backlog was gathered
	woken   time.Time // set while a publish is all that speaks for a backlog
	failure error     // why the newest reading failed; nil when it did not
	edge    edge
}

// published records a message for the Function. The message alone makes
// it active, before JetStream can say so, unless one message is too few.
func (a *activity) published(now time.Time) (turned bool) {
	if a.phase == phaseActive || a.threshold >= 1 {
		return false
	}
	a.turnActive(now, causePublish)
	a.backlog, a.seen, a.woken = 1, now, now
	return true
}

// read records a backlog that was asked for at began. A backlog of 0
// right after a publish is not believed: the message may not be stored yet.
func (a *activity) read(began time.Time, backlog uint64, grace time.Duration) (turned bool) {
	a.failure = nil
	if float64(backlog) > a.threshold {
		turned = a.phase != phaseActive
		if turned {
			a.turnActive(began, causePoll)
		}
		a.backlog, a.seen, a.woken = backlog, began, time.Time{}
		return turned
	}
	if !a.idle(began, backlog, grace) {
		return false
	}
	turned = a.phase != phaseIdle
	a.phase, a.backlog, a.seen, a.woken = phaseIdle, backlog, began, time.Time{}
	return turned
}

// idle reports whether a backlog that was asked for at began means idle.
func (a *activity) idle(began time.Time, backlog uint64, grace time.Duration) bool {
	doubtful := a.provisional() && began.Before(a.woken.Add(grace))
	return float64(backlog) <= a.threshold && !doubtful
}

// failed records a reading that gave nothing.
func (a *activity) failed(err error) { a.failure = err }

func (a *activity) turnActive(now time.Time, why cause) {
	a.phase = phaseActive
	a.addEdge(now, why)
}

func (a *activity) addEdge(now time.Time, why cause) {
	a.edge = edge{number: a.edge.number + 1, at: now, cause: why}
}

// provisional is true while a publish is all that speaks for a backlog.
func (a *activity) provisional() bool { return !a.woken.IsZero() }

// answer is the backlog, or why it is not known. A reading that says idle is
// not repeated once there is reason to doubt it, because KEDA takes pods away on
// it; one that says active may grow old, because nothing is lost by it.
func (a *activity) answer(now time.Time, maxAge time.Duration, connected bool) (uint64, error) {
	switch age := now.Sub(a.seen); {
	case a.phase == phaseUnknown && a.failure != nil:
		return 0, fmt.Errorf("%w: %w", errUnknown, a.failure)
	case a.phase == phaseUnknown:
		return 0, fmt.Errorf("%w: it was not read yet", errUnknown)
	case age > maxAge:
		return 0, fmt.Errorf("%w: it was last read %s ago", errUnknown, age.Round(time.Second))
	case a.phase == phaseIdle && a.failure != nil:
		return 0, fmt.Errorf("%w: %w", errUnknown, a.failure)
	case a.phase == phaseIdle && !connected:
		return 0, fmt.Errorf("%w: not connected to NATS", errUnknown)
	}
	return a.backlog, nil
}
