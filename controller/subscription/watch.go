package subscription

import (
	"time"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// idleTimeout is how long a consumer may have events, capacity and a pull request and
	// deliver nothing. NATS needs milliseconds for it.
	idleTimeout = time.Minute
	// minHeldTimeout is how long a consumer may wait for the settlement of what it
	// delivered. A sink may take its time, and an event waits in its place when the stream of
	// retries is full.
	minHeldTimeout = 30 * time.Minute
	heldFactor     = 4 // of what the Subscription itself allows
	// longestGap between two inspections that are compared. During a longer one NATS was away.
	longestGap = 3 * sweepInterval
	// maxRounds bounds how often the timeout doubles with each renewal without effect.
	maxRounds = 5
)

// recovery is what is done about a consumer that does not deliver.
type recovery string

const (
	noRecovery recovery = ""
	moveLeader recovery = "leader moved"
	renew      recovery = "renewed"
)

// watch is what is remembered of a consumer from one inspection to the next.
type watch struct {
	inspected time.Time
	progress  broker.Progress // but for Waiting, which changes all the time
	held      uint64          // messages that were delivered and not settled
	since     time.Time       // when it was first seen like this
	moved     bool            // its leader was moved since then
	rounds    int             // renewals without a delivery after them
}

// next evaluates an inspection of a consumer. held is how long messages may be held before it counts
// as stuck, 0 for ever. A consumer without pull requests is healthy: the Subscription is
// paused, its sink sleeps, or no bridge runs.
func (w watch) next(seen broker.Consumer, held time.Duration, now time.Time) (watch, recovery) {
	after := watch{inspected: now, progress: seen.Progress, held: seen.Backlog.AckPending, since: now, rounds: w.rounds}
	after.progress.Waiting = 0
	still := after.progress == w.progress && after.held == w.held && now.Sub(w.inspected) <= longestGap
	if after.progress.Created.Equal(w.progress.Created) && after.progress.Delivered > w.progress.Delivered {
		after.rounds = 0
	}
	timeout := timeoutFor(seen, held)
	if !still || timeout == 0 {
		return after, noRecovery
	}
	after.since, after.moved = w.since, w.moved
	if w.moved {
		timeout = idleTimeout
	}
	if now.Sub(w.since) < timeout<<w.rounds {
		return after, noRecovery
	}
	after.since = now
	if seen.Progress.Replicas > 1 && !w.moved {
		after.moved = true
		return after, moveLeader
	}
	after.rounds = min(w.rounds+1, maxRounds)
	return after, renew
}

// timeoutFor is how long a consumer may stand still as it does now, 0 for ever.
func timeoutFor(seen broker.Consumer, held time.Duration) time.Duration {
	switch {
	case seen.Progress.Waiting == 0, seen.Progress.Paused:
		return 0
	case seen.Backlog.Pending > 0 && seen.Backlog.AckPending < uint64(max(seen.MaxAckPending, 0)):
		return idleTimeout
	case seen.Backlog.AckPending > 0:
		return held
	default:
		return 0
	}
}

// heldTimeout is how long the messages of a route may be held. What is kept in order waits in
// a bridge for all attempts of those before it.
func heldTimeout(route routing.Route) time.Duration {
	if route.Delivery.OrderedBy != "" {
		return 0
	}
	own := max(route.Delivery.Timeout, route.Delivery.Backoff.Delay, route.Delivery.Backoff.MaxDelay)
	return max(minHeldTimeout, heldFactor*own)
}
