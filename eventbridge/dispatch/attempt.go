package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

// attempt is the result of one attempt to deliver a message.
type attempt struct {
	result result
	event  *cloudevent.Event // nil when it cannot be decoded
	answer Answer
	reason failure.Reason // why it is to be retried
	began  time.Time
	took   time.Duration
	traced func(status int, outcome string) // ends the span; nil without a span
}

// deliver handles one message until it is settled. ctx ends when the drain is over.
func (d *Dispatcher) deliver(ctx context.Context, j *job) {
	a := attempt{result: interrupted}
	holdsSlot, kept := j.over == "", false
	defer func() {
		if p := recover(); p != nil { // the message is redelivered after AckWait
			d.Log.Error(fmt.Errorf("panic: %v", p), "panic while settling a message", "stack", string(debug.Stack()))
		}
		d.workers.completing()
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
		// Its redelivery precedes what follows it in order: a retry would come after that.
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

// holdsUp reports whether the messages after an ordered one have to wait for it.
func (j *job) holdsUp(dec decision) bool {
	return j.key != "" && (dec.outcome == Retry || dec.outcome == Return)
}

// lapsed reports whether the broker may have given an ordered message to another replica. Settling it would let that
// replica believe that we hold nothing any more, while the messages after it wait for its redelivery.
func (d *Dispatcher) lapsed(j *job) bool {
	if j.key == "" || !d.held.lapsed(j.Message) {
		return false
	}
	d.scheduler.halt()
	d.Log.Info("message was not extended in time, leaving it to its redelivery")
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
	d.series.get().outcomes[dec.outcome].Inc()
	d.report(j, before, a, dec)
	return true
}

// try sends the event and classifies the answer. A panic of the sink or the decoder is a failed attempt.
func (d *Dispatcher) try(ctx context.Context, j *job) (a attempt) {
	a.began = time.Now()
	defer func() {
		a.took = time.Since(a.began)
		if p := recover(); p != nil {
			a.result, a.reason = failed, failure.DeliveryPanicked
			d.Log.Error(fmt.Errorf("panic: %v", p), "panic while delivering a message", "stack", string(debug.Stack()))
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
	d.series.get().duration.Observe(took.Seconds())
	if d.Observe != nil {
		d.Observe(j.Message, a.event, a.answer, took)
	}
	a.reason = reasonOf(a.answer, err)
	if a.result = classify(a.answer, err); err != nil {
		d.Log.V(1).Info("no answer from the sink", "id", ev.ID, "reason", err.Error())
	}
	if a.result == delivered {
		a.result, a.reason = d.publishReply(ctx, j.Message, a.event, a.answer), failure.ReplyNotStored
	}
	return a
}

// precheck decides what can be decided without calling the sink.
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

// pick evaluates the filter. An event that it cannot evaluate is not delivered. An event over the quota does not wait
// long for the filter, because it holds the storage that is to be freed.
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
		d.series.get().filterErrors.Inc()
		d.Log.V(1).Info("cannot evaluate the filter", "id", ev.ID, "reason", err.Error())
		return unwanted
	case !matches:
		return unwanted
	default:
		return wanted
	}
}

// settle acts on the decision. It has its own timeout, because ctx may have ended. An ack has none: it waits for no
// response of the broker, and a timer for each event would cost more.
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
		d.series.get().settleErrors.Inc()
		d.Log.Error(err, "cannot settle a message, it will be redelivered", "outcome", dec.outcome)
		return
	}
	d.series.get().outcomes[dec.outcome].Inc()
	d.report(j, j.attempt, a, dec)
	if log := d.Log.V(1); log.Enabled() {
		log.Info("delivery settled", "id", idOf(a.event), "attempt", j.attempt, "outcome", dec.outcome,
			"status", a.answer.Status, "started", formatTime(a.answer.Started), "took", a.took.String(), "delay", dec.delay.String())
	}
}

// keyOf returns the value that a message is ordered by. Messages without one are ordered among themselves.
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

// storeDeadLetter stores the dead letter of a message that is to be rejected. When that fails the message is retried,
// so that no event is lost.
func (d *Dispatcher) storeDeadLetter(ctx context.Context, j *job, a attempt, dec decision) decision {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	attempts := j.attempt
	if a.result == overLimit {
		attempts-- // no attempt was made
	}
	err := j.StoreDeadLetter(ctx, DeadLetter{
		Reason:   dec.reason,
		Attempts: attempts,
		Status:   a.answer.Status,
		Excerpt:  a.answer.Excerpt,
	})
	if err != nil {
		d.Log.Error(err, "cannot store a dead letter, retrying the event", "reason", dec.reason)
		return decision{outcome: Retry, delay: d.now().backoff.Delay(j.attempt, 0, random()), reason: failure.DeadLetterNotStored}
	}
	d.series.get().deadLetters.WithLabelValues(string(dec.reason)).Inc()
	d.Log.Info("dead letter stored", "reason", dec.reason, "attempts", attempts, "status", a.answer.Status)
	return dec
}

// Extensions that link the events of a chain.
const (
	// ExtensionHops is the number of events between the first of a chain and this one.
	ExtensionHops = "rousehops"
	// ExtensionCause is the id of the event whose delivery caused this one.
	ExtensionCause = "rousecause"

	extensionTrace = "traceparent"
)

// ErrUnpublishable means that a reply can never be stored, because it is not a valid event.
var ErrUnpublishable = errors.New("reply cannot be published")

// Replies publishes the events that sinks reply with.
type Replies interface {
	// Publish returns nil after the reply is stored, and ErrUnpublishable when it never can be.
	Publish(ctx context.Context, reply *cloudevent.Event) error
}

// publishReply publishes the sink's reply. The event counts as delivered once its reply is stored, or never can be.
func (d *Dispatcher) publishReply(ctx context.Context, msg Message, cause *cloudevent.Event, answer Answer) result {
	switch {
	case d.Replies == nil || (answer.Reply == nil && answer.ReplyError == nil):
		return delivered
	case answer.ReplyError != nil:
		d.ignoreReply(cause, answer.ReplyError)
		return delivered
	}
	if over := d.extendChain(msg, cause, answer.Reply); over != delivered {
		return over
	}
	err := d.Replies.Publish(ctx, answer.Reply)
	switch {
	case err == nil:
		if d.Chain != nil {
			d.Chain.Count(msg.Stored(), cause)
		}
		d.series.get().replies.Inc()
		return delivered
	case errors.Is(err, ErrUnpublishable):
		d.ignoreReply(cause, err)
		return delivered
	case ctx.Err() != nil:
		return interrupted
	default:
		d.Log.Error(err, "cannot publish the sink's reply, retrying the event", "id", cause.ID)
		return failed
	}
}

// extendChain makes a reply the next event of its cause's chain, unless the chain is at its limit.
func (d *Dispatcher) extendChain(msg Message, cause, reply *cloudevent.Event) result {
	hops := Hops(cause)
	if hops >= d.options.MaxHops {
		return looping
	}
	if d.Chain != nil && !d.Chain.Extend(msg.Stored(), cause, reply) {
		return exhausted
	}
	reply.SetExtension(ExtensionHops, strconv.Itoa(hops+1))
	reply.SetExtension(ExtensionCause, cause.ID)
	if parent := cause.Extension(extensionTrace); parent != "" && reply.Extension(extensionTrace) == "" {
		reply.SetExtension(extensionTrace, parent)
	}
	return delivered
}

// Hops returns how many events precede one in its chain, and 0 if the extension is not a number.
func Hops(ev *cloudevent.Event) int {
	text := ev.Extension(ExtensionHops)
	if text == "" {
		return 0 // avoids an error that is allocated for each event
	}
	hops, _ := strconv.ParseInt(text, 10, 32) // the largest number if it is out of range
	return max(int(hops), 0)
}

func (d *Dispatcher) ignoreReply(cause *cloudevent.Event, err error) {
	d.series.get().replyErrors.Inc()
	d.Log.Info("ignoring the sink's reply: it is not a valid event", "id", cause.ID, "reason", err.Error())
}

// Settled is the outcome of one attempt. Observers must not hold the event: it references its data.
type Settled struct {
	Event   *cloudevent.Event // nil for a message that is not an event
	Outcome Outcome
	Attempt int            // from 1
	Status  int            // of the sink's answer, 0 without an answer
	Reason  failure.Reason // of a Retry or a Reject
	Delay   time.Duration  // of a Retry
	Began   time.Time
	Took    time.Duration
}

// report calls Settled with the outcome of an attempt.
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
