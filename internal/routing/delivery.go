package routing

import (
	"time"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
)

// Delivery is what a Subscription says about its deliveries. Zero values leave it to the installation.
type Delivery struct {
	// MaxAttempts after which an event becomes a dead letter.
	MaxAttempts int
	// Backoff between attempts.
	Backoff Backoff
	// Timeout of one attempt.
	Timeout time.Duration
	// TTL is how old an event may become, 0 for any age.
	TTL time.Duration
	// EventsPerSecond is the rate limit, 0 for none.
	EventsPerSecond int
	// OrderedBy is the attribute by which events are kept in order, empty for none.
	OrderedBy string
	// StartFrom is where a new consumer starts.
	StartFrom StartFrom
}

// Backoff is the wait between attempts.
type Backoff struct {
	Policy          eventingv1alpha2.BackoffPolicy
	Delay, MaxDelay time.Duration
}

// StartFrom is a position in the stream. The zero value is "from now on".
type StartFrom struct {
	Position eventingv1alpha2.StartPosition
	Time     time.Time
	Sequence uint64
}

// deliveryOf reads spec.delivery.
func deliveryOf(spec *eventingv1alpha2.Delivery) Delivery {
	if spec == nil {
		return Delivery{}
	}
	d := Delivery{OrderedBy: spec.OrderedBy}
	if spec.MaxAttempts != nil {
		d.MaxAttempts = int(*spec.MaxAttempts)
	}
	if spec.Timeout != nil {
		d.Timeout = spec.Timeout.Duration
	}
	if spec.TTL != nil {
		d.TTL = spec.TTL.Duration
	}
	if spec.RateLimit != nil {
		d.EventsPerSecond = int(spec.RateLimit.EventsPerSecond)
	}
	if spec.Backoff != nil {
		d.Backoff = backoffOf(*spec.Backoff)
	}
	if spec.StartFrom != nil {
		d.StartFrom = startOf(*spec.StartFrom)
	}
	return d
}

func backoffOf(spec eventingv1alpha2.Backoff) Backoff {
	b := Backoff{Policy: spec.Policy}
	if spec.Delay != nil {
		b.Delay = spec.Delay.Duration
	}
	if spec.MaxDelay != nil {
		b.MaxDelay = spec.MaxDelay.Duration
	}
	return b
}

func startOf(spec eventingv1alpha2.StartFrom) StartFrom {
	s := StartFrom{Position: spec.Position}
	if spec.Time != nil {
		s.Time = spec.Time.Time
	}
	if spec.Sequence != nil {
		s.Sequence = uint64(max(*spec.Sequence, 0))
	}
	return s
}
