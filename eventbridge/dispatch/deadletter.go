package dispatch

import (
	"context"

	"github.com/rouse-run/rouse/internal/failure"
)

// storeDeadLetter stores the dead letter of a message that is to be rejected. When that is not possible the message
// is retried instead, so that no event ends without a trace.
func (d *Dispatcher) storeDeadLetter(ctx context.Context, j *job, a attempt, dec decision) decision {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	attempts := j.attempt
	if a.result == overLimit {
		attempts-- // this one was none
	}
	err := j.StoreDeadLetter(ctx, DeadLetter{
		Reason:   dec.reason,
		Attempts: attempts,
		Status:   a.answer.Status,
		Excerpt:  a.answer.Excerpt,
	})
	if err != nil {
		d.Log.Error(err, "cannot store a dead letter, the event is retried", "reason", dec.reason)
		return decision{outcome: Retry, delay: d.now().backoff.Delay(j.attempt, 0, random()), reason: failure.DeadLetterNotStored}
	}
	d.metrics.deadLetters.WithLabelValues(string(dec.reason)).Inc()
	d.Log.Info("dead letter stored", "reason", dec.reason, "attempts", attempts, "status", a.answer.Status)
	return dec
}
