package subscription

import (
	"context"
	"slices"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

// serveDeadLetters makes the consumer that brings dead letters to their sink, or deletes
// it if they have none any more, and reports why they wait. The sweeper repeats a deletion
// that fails.
func (r *Reconciler) serveDeadLetters(
	ctx context.Context, sub *eventingv1alpha2.Subscription, route routing.Route,
) (wait string, err error) {
	deadLetters := route.DeadLetters
	if deadLetters == nil {
		if !hadDeadLetterSink(sub) {
			return "", nil
		}
		return "", classify(r.consumers.DeleteConsumer(ctx, broker.DeadLetterStream, route.Consumer))
	}
	if err := classify(r.consumers.EnsureConsumer(ctx, broker.DeadLetterStream, broker.ConsumerOf(*deadLetters))); err != nil {
		return err.Error(), err
	}
	problem, err := r.sinkProblem(ctx, *deadLetters)
	if err != nil {
		return err.Error(), err
	}
	return problem, nil // its Service is watched too
}

// droppedMessage says what happened to dead letters, and what to do.
const droppedMessage = "The stream of dead letters was full, and this namespace held most of it: its oldest were dropped. " +
	"Redrive or purge dead letters, or have deadLetters.maxBytes raised"

// deadLettersDroppedCondition is the condition of a Subscription that has lost dead letters.
func deadLettersDroppedCondition() eventingv1alpha2.Condition {
	return condition(eventingv1alpha2.ConditionDeadLettersKept, false, eventingv1alpha2.ReasonDeadLettersDropped, droppedMessage)
}

// isDeadLettersDropped reports whether the condition is the one that the sweeper sets and removes.
func isDeadLettersDropped(c eventingv1alpha2.Condition) bool {
	return c.Type == eventingv1alpha2.ConditionDeadLettersKept
}

// hadDeadLetterSink reads the status of the last reconciliation.
func hadDeadLetterSink(sub *eventingv1alpha2.Subscription) bool {
	return slices.ContainsFunc(sub.Status.Conditions, func(c eventingv1alpha2.Condition) bool {
		return c.Type == eventingv1alpha2.ConditionDeadLetterSink
	})
}
