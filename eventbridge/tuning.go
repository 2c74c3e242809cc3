package eventbridge

import (
	"context"
	"errors"
	"fmt"
	"math"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/ingress"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/fair"
	"github.com/rouse-run/rouse/internal/routing"
)

// dispatchOptions are the process's options with what a Subscription says for itself.
func dispatchOptions(o dispatch.Options, own routing.Delivery) dispatch.Options {
	if own.MaxAttempts > 0 {
		o.MaxAttempts = own.MaxAttempts
	}
	o.Backoff = backoffOf(o.Backoff, own.Backoff)
	o.EventsPerSecond = own.EventsPerSecond
	o.OrderedBy = own.OrderedBy
	o.TTL = own.TTL
	if own.Timeout > 0 {
		o.Timeout = own.Timeout
	}
	return o
}

func backoffOf(b dispatch.Backoff, own routing.Backoff) dispatch.Backoff {
	switch own.Policy {
	case eventingv1alpha2.BackoffLinear:
		b.Growth = dispatch.Linear
	case eventingv1alpha2.BackoffConstant:
		b.Growth = dispatch.Constant
	case eventingv1alpha2.BackoffExponential:
		b.Growth = dispatch.Exponential
	}
	if own.Delay > 0 {
		b.Base = own.Delay
		b.Max = max(b.Max, own.Delay)
	}
	if own.MaxDelay > 0 {
		b.Max = own.MaxDelay
		b.Base = min(b.Base, own.MaxDelay)
	}
	return b
}

// repliesAtATime are stored by a replica. The stream stores one event after another, so the replies of a namespace, half of these at most,
// are what an event of another one may wait for there. More of them would store no more in a second.
const repliesAtATime = 32

func newReplyPlaces() *fair.Pool {
	return fair.NewPool(fair.Limits{Total: repliesAtATime, Waiting: math.MaxInt32}) // calls that have been answered, which other limits bound
}

// replies publishes what sinks answer with.
type replies struct {
	to        observed
	access    *publishAccess
	places    *fair.Pool // by namespace
	namespace string     // whose sink it is
}

// Publish implements dispatch.Replies.
func (r replies) Publish(ctx context.Context, reply *cloudevent.Event) error {
	if err := r.access.reply(r.namespace, reply); err != nil {
		return err
	}
	if err := r.places.Acquire(ctx.Done(), r.namespace, 1); err != nil {
		return err
	}
	defer r.places.Release(r.namespace, 1)
	err := r.to.Publish(ctx, reply)
	if _, invalid := errors.AsType[*ingress.InvalidEventError](err); invalid || errors.Is(err, ingress.ErrTooLarge) {
		return fmt.Errorf("%w: %w", dispatch.ErrUnpublishable, err)
	}
	return err
}
