package dispatch

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

// attempt is what happened to one message.
type attempt struct {
	result result
	event  *cloudevent.Event // nil when it cannot be decoded
	answer Answer
	reason failure.Reason // why it is to be tried again
	began  time.Time
	took   time.Duration
	traced func(status int, outcome string) // ends the span; nil without one
}

// deliver handles one message from start to settlement. ctx ends when the drain is over.
func (d *Dispatcher) deliver(ctx context.Context, j *job) {
	a := attempt{result: interrupted}
	holdsSlot, kept := j.over == "", false
	defer func() {
		if p := recover(); p != nil { // the message is redelivered after AckWait
			d.Log.Error(fmt.Errorf("panic: %v", p), "settling a message panicked", "stack", string(debug.Stack()))
		}
		if holdsSlot {
			d.scheduler.done(j, a.result, false, 0)
		}
		if !kept {
			d.release(j)
		}
	}()
	if d.lapsed(j) {
		return
	}
	a = d.try(ctx, j)
	dec := d.decide(j, a)
	if a.traced != nil {
		a.traced(a.answer.Status, string(dec.outcome))
	}
	if d.lapsed(j) {
		return
	}
	if dec.outcome == Reject {
		dec = d.storeDeadLetter(ctx, j, a, dec)
	}
	if j.holdsUp(dec) {
		if holdsSlot {
			holdsSlot = false
			if kept = d.requeue(ctx, j, a, dec); kept {
				return
			}
		}
		// Its next delivery comes before what follows it in order: a retry would come back behind that.
		dec = decision{outcome: Return}
	}
	d.settle(ctx, j, a, dec)
}

func (d *Dispatcher) decide(j *job, a attempt) decision {
	if a.result == overLimit {
		return decision{outcome: Reject, reason: a.reason}
	}
	return d.now().decide(a.result, j.attempt, a.answer.RetryAfter, random())
}

// holdsUp reports whether what comes after an ordered message has to wait for it.
func (j *job) holdsUp(dec decision) bool {
	return j.key != "" && (dec.outcome == Retry || dec.outcome == Return)
}

// lapsed reports whether an ordered message is no longer ours. Settling it would make its present owner believe that we
// hold nothing any more, and what comes after it waits for its next delivery.
func (d *Dispatcher) lapsed(j *job) bool {
	if j.key == "" || !d.held.lapsed(j.Message) {
		return false
	}
	d.scheduler.halt()
	d.Log.Info("a message could not be extended in time, it is left to its next delivery")
	return true
}

// requeue holds an ordered message for its next attempt, so that what comes after it in order waits.
func (d *Dispatcher) requeue(ctx context.Context, j *job, a attempt, dec decision) bool {
	before := j.attempt
	if dec.outcome == Retry {
		j.attempt++
	}
	if !d.scheduler.done(j, a.result, ctx.Err() == nil, dec.delay) {
		j.attempt = before
		return false
	}
	d.metrics.outcomes[dec.outcome].Inc()
	d.report(j, before, a, dec)
	return true
}

// try sends the event and judges the answer. A panic of the sink or the decoder is a failed attempt.
func (d *Dispatcher) try(ctx context.Context, j *job) (a attempt) {
	a.began = time.Now()
	defer func() {
		a.took = time.Since(a.began)
		if p := recover(); p != nil {
			a.result, a.reason = failed, failure.DeliveryPanicked
			d.Log.Error(fmt.Errorf("panic: %v", p), "delivering a message panicked", "stack", string(debug.Stack()))
		}
	}()
	ev, err := j.Event()
	if err != nil {
		a.result = undecodable
		return a
	}
	a.event = &ev
	if a.result, a.reason = d.precheck(j, a.event); a.result != wanted {
		return a
	}
	if d.Tracer != nil {
		a.traced = d.Tracer.Deliver(ctx, d.Subscription.String(), j.attempt, a.event)
	}
	if d.Chain != nil {
		d.Chain.Carry(j.Stored(), a.event)
	}
	a.answer, err = d.send(ctx, j, &a)
	defer a.answer.release()
	if err != nil && ctx.Err() != nil {
		a.result = interrupted
		return a
	}
	took := time.Since(a.began)
	d.metrics.duration.Observe(took.Seconds())
	if d.Observe != nil {
		d.Observe(j.Message, a.event, a.answer, took)
	}
	a.reason = reasonOf(a.answer, err)
	if a.result = judge(a.answer, err); err != nil {
		d.Log.V(1).Info("no answer from the sink", "id", ev.ID, "reason", err.Error())
	}
	if a.result == delivered {
		a.result, a.reason = d.publishReply(ctx, j.Message, a.event, a.answer), failure.ReplyNotStored
	}
	return a
}

// precheck decides what can be decided about an event before its sink is called.
func (d *Dispatcher) precheck(j *job, ev *cloudevent.Event) (result, failure.Reason) {
	reason := d.overBy(j)
	if picked := d.pick(ev, reason == failure.QuotaExceeded); picked != wanted {
		return picked, ""
	}
	if reason != "" {
		return overLimit, reason
	}
	if !d.options.Endless && Hops(ev) > d.options.MaxHops {
		return looping, ""
	}
	return wanted, ""
}

// pick asks the filter. An event that it cannot judge is not delivered. An event over the quota does not wait long for the
// filter: meanwhile it would hold the storage that it is to free.
func (d *Dispatcher) pick(ev *cloudevent.Event, tooMany bool) result {
	if d.Filter == nil {
		return wanted
	}
	match, ifNot := d.Filter.Match, interrupted
	if prompt, ok := d.Filter.(PromptFilter); ok && tooMany {
		match, ifNot = prompt.MatchSoon, wanted
	}
	matches, err := match(ev)
	switch {
	case errors.Is(err, ErrNotFiltered):
		return ifNot
	case err != nil:
		d.metrics.filterErrors.Inc()
		d.Log.V(1).Info("the filter cannot judge an event", "id", ev.ID, "reason", err.Error())
		return unwanted
	case !matches:
		return unwanted
	default:
		return wanted
	}
}

// settle acts on the decision. It has its own time bound, because ctx may be over. An ack asks nothing of the broker,
// which bounds by itself what it waits for, and a timer for each event would cost more.
func (d *Dispatcher) settle(ctx context.Context, j *job, a attempt, dec decision) {
	ctx = context.WithoutCancel(ctx)
	if dec.outcome != Ack {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, settleTimeout)
		defer cancel()
	}
	var err error
	switch dec.outcome {
	case Ack, Skip:
		err = j.Ack(ctx)
	case Reject:
		err = j.Reject(ctx, string(dec.reason))
	case Return:
		err = j.Return(ctx, dec.delay)
	default:
		err = j.Retry(ctx, dec.delay)
	}
	if err != nil {
		d.metrics.settleErrors.Inc()
		d.Log.Error(err, "cannot settle a message, it will be delivered again", "outcome", dec.outcome)
		return
	}
	d.metrics.outcomes[dec.outcome].Inc()
	d.report(j, j.attempt, a, dec)
	if log := d.Log.V(1); log.Enabled() {
		log.Info("delivery settled", "id", idOf(a.event), "attempt", j.attempt, "outcome", dec.outcome,
			"status", a.answer.Status, "started", formatTime(a.answer.Started), "took", a.took.String(), "delay", dec.delay.String())
	}
}

// keyOf is the value that a message is ordered by. What has none is ordered among itself.
func (d *Dispatcher) keyOf(msg Message) string {
	const none = "\x00"
	ev, err := msg.Event()
	if err != nil {
		return none
	}
	if key, ok := ev.Attribute(d.options.OrderedBy); ok {
		return key
	}
	return none
}

func idOf(ev *cloudevent.Event) string {
	if ev == nil {
		return ""
	}
	return ev.ID
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
