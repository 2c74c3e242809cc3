package dispatch

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

const (
	// detachShare is the part of its timeout, one of so many, after which a call without an answer is detached.
	detachShare = 4
	// leastDetach is how long every call keeps its slot: to store an event twice more costs more than the slot of a short call.
	leastDetach = time.Second
)

// detachAfter is how long a call may hold one of the slots in flight, 0 for until it ends. A Subscription that asks for one
// delivery at a time, or for order, keeps them. Dead letters block nothing but each other.
func detachAfter(o Options, maxInFlight int) time.Duration {
	after := max(o.Timeout/detachShare, leastDetach)
	if maxInFlight < 2 || o.OrderedBy != "" || o.Endless || after >= o.Timeout {
		return 0
	}
	return after
}

// send calls the sink.
func (d *Dispatcher) send(ctx context.Context, j *job, a *attempt) (Answer, error) {
	if d.unanswered == nil {
		return d.Sink.Send(ctx, a.event)
	}
	d.unanswered.begin(j)
	defer d.unanswered.end(j)
	return d.Sink.Send(ctx, a.event)
}

// detach has a message leave the broker's limit, and its job the scheduler, while the call goes on. The event comes back if
// it is not settled AckWait after the end of its call: connecting to other addresses, a reply and the settlement take time.
func (d *Dispatcher) detach(j *job) (detached bool) {
	defer func() {
		if p := recover(); p != nil {
			d.Log.Error(fmt.Errorf("panic: %v", p), "detaching a call panicked", "stack", string(debug.Stack()))
		}
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.work), settleTimeout)
	defer cancel()
	if err := j.Detach(ctx, time.Until(j.call.began.Add(d.options.Timeout))+d.options.AckWait); err != nil {
		d.Log.V(1).Info("a call that takes long keeps its slot", "reason", err.Error())
		return false
	}
	d.held.remove(j.Message)
	d.metrics.detached.Inc()
	d.metrics.detachedCalls.Inc()
	d.scheduler.detach(j)
	return true
}
