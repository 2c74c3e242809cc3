package dispatch

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"
)

// attempt is what happened to one message.
type attempt struct {
	verdict verdict
	id      string // of the event, empty when it cannot be decoded
	answer  Answer
	took    time.Duration
}

// deliver handles one message from start to settlement. ctx ends when the drain is over.
func (d *Dispatcher) deliver(ctx context.Context, msg Message) {
	d.metrics.inFlight.Inc()
	d.held.add(msg)
	defer func() {
		d.held.remove(msg)
		d.metrics.inFlight.Dec()
		if p := recover(); p != nil { // the message is redelivered after AckWait
			d.Log.Error(fmt.Errorf("panic: %v", p), "settling a message panicked", "stack", string(debug.Stack()))
		}
	}()
	a := d.try(ctx, msg)
	d.settle(ctx, msg, a)
}

// try sends the event and judges the answer. A panic of the sink or the decoder is a failed attempt.
func (d *Dispatcher) try(ctx context.Context, msg Message) (a attempt) {
	started := time.Now()
	defer func() {
		a.took = time.Since(started)
		if p := recover(); p != nil {
			a.verdict = failed
			d.Log.Error(fmt.Errorf("panic: %v", p), "delivering a message panicked", "stack", string(debug.Stack()))
		}
	}()
	ev, err := msg.Event()
	if err != nil {
		a.verdict = undecodable
		return a
	}
	a.id = ev.ID()
	a.answer, err = d.Sink.Send(ctx, ev)
	if err != nil && ctx.Err() != nil {
		a.verdict = interrupted
		return a
	}
	if a.verdict = judge(a.answer, err); err != nil {
		d.Log.V(1).Info("no answer from the sink", "id", a.id, "reason", err.Error())
	}
	d.metrics.duration.Observe(time.Since(started).Seconds())
	return a
}

// settle acts on the verdict. It has its own time bound, because ctx may be over.
func (d *Dispatcher) settle(ctx context.Context, msg Message, a attempt) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	dec := d.policy.decide(a.verdict, msg.Attempt(), a.answer.RetryAfter, random())
	if dec.outcome == Reject {
		dec = d.bury(ctx, msg, a, dec)
	}
	var err error
	switch dec.outcome {
	case Ack:
		err = msg.Ack(ctx)
	case Reject:
		err = msg.Reject(ctx, dec.reason)
	default:
		err = msg.Retry(ctx, dec.delay)
	}
	if err != nil {
		d.metrics.settleErrors.Inc()
		d.Log.Error(err, "cannot settle a message, it will be delivered again", "outcome", dec.outcome)
		return
	}
	d.metrics.outcomes[dec.outcome].Inc()
	if log := d.Log.V(1); log.Enabled() {
		log.Info("delivery settled", "id", a.id, "attempt", msg.Attempt(), "outcome", dec.outcome,
			"status", a.answer.Status, "started", formatTime(a.answer.Started), "took", a.took.String(), "delay", dec.delay.String())
	}
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
