package eventbridge

import (
	"time"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/internal/routing"
)

// Retries say how often and after which waits an event is delivered again, where its Subscription does not. Zero leaves what the options
// say.
type Retries struct {
	MaxAttempts         int
	Backoff, MaxBackoff time.Duration
}

// SetRetries changes them for all attempts that end from now on.
func (b *Bridge) SetRetries(r Retries) { b.deliveries.retries.Store(&r) }

// retriesOf are those of a route at each moment.
func (d *deliveries) retriesOf(own routing.Delivery) func() (int, dispatch.Backoff) {
	return func() (int, dispatch.Backoff) {
		o := d.options.Dispatch
		if r := d.retries.Load(); r != nil {
			o = r.over(o)
		}
		o = dispatchOptions(o, own)
		return o.MaxAttempts, o.Backoff
	}
}

// over changes options. Of a wait and its maximum that do not fit each other the wait counts.
func (r Retries) over(o dispatch.Options) dispatch.Options {
	if r.MaxAttempts > 0 {
		o.MaxAttempts = r.MaxAttempts
	}
	if r.MaxBackoff > 0 {
		o.Backoff.Max = r.MaxBackoff
	}
	if r.Backoff > 0 {
		o.Backoff.Base = r.Backoff
	}
	o.Backoff.Max = max(o.Backoff.Max, o.Backoff.Base)
	return o
}
