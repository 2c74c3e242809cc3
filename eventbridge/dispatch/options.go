package dispatch

import (
	"errors"
	"time"

	"github.com/spf13/pflag"
)

// Options are the limits of delivery. Those of a process hold for every Subscription that sets none of its own.
type Options struct {
	MaxInFlight  int           // bounds what Subscriptions ask for
	MaxAttempts  int           // the attempt after which an event becomes a dead letter
	Backoff      Backoff       // wait between attempts that failed
	ShortDelay   time.Duration // wait after an attempt that did not reach the sink
	AckWait      time.Duration // after this long without Extend the broker redelivers
	DrainTimeout time.Duration // how long busy deliveries may finish after the context ended
	Timeout      time.Duration // of a call of the sink, which is detached after a part of it; 0 for never
	MaxHops      int           // events in a chain of those that bring each other forth
	MaxCaused    int           // events of a chain, with all its branches, in the name of one namespace
	Endless      bool          // nothing becomes a dead letter: what cannot be delivered is tried again, for ever

	EventsPerSecond int           // deliveries in a second, 0 for no limit
	TTL             time.Duration // age at which an event becomes a dead letter without another attempt, 0 for none
	OrderedBy       string        // attribute by which events are kept in order, empty for none
}

// DefaultOptions tries an event 16 times within about half an hour.
func DefaultOptions() Options {
	return Options{
		MaxInFlight:  1000,
		MaxAttempts:  16,
		Backoff:      Backoff{Base: 500 * time.Millisecond, Max: 5 * time.Minute, Jitter: 0.2},
		ShortDelay:   250 * time.Millisecond,
		AckWait:      30 * time.Second,
		DrainTimeout: 30 * time.Second,
		MaxHops:      32,
		MaxCaused:    10_000,
	}
}

// BindFlags adds the --delivery-* flags.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.MaxInFlight, "delivery-max-in-flight", o.MaxInFlight,
		"most deliveries at a time for one Subscription, also when it asks for more")
	fs.IntVar(&o.MaxAttempts, "delivery-max-attempts", o.MaxAttempts,
		"attempts after which an event that its sink keeps failing becomes a dead letter")
	fs.DurationVar(&o.Backoff.Base, "delivery-backoff", o.Backoff.Base,
		"wait after the first failed attempt; it doubles with each further one")
	fs.DurationVar(&o.Backoff.Max, "delivery-backoff-max", o.Backoff.Max,
		"longest wait between attempts, also when the sink asks for more by Retry-After")
	fs.DurationVar(&o.AckWait, "delivery-ack-wait", o.AckWait,
		"AckWait of the consumers; running deliveries are extended twice as often")
	fs.DurationVar(&o.DrainTimeout, "delivery-drain-timeout", o.DrainTimeout,
		"how long running deliveries may finish when the process stops")
	fs.IntVar(&o.MaxHops, "delivery-max-hops", o.MaxHops,
		"events that one event may bring forth one after the other, by replies or emitted; what goes beyond becomes a dead letter")
	fs.IntVar(&o.MaxCaused, "delivery-max-caused", o.MaxCaused,
		"events that one event may bring forth in all, by replies or emitted, in the name of one namespace and at each replica; "+
			"what replies beyond that becomes a dead letter, what is emitted is refused")
}

// Validate names every limit that cannot work.
func (o *Options) Validate() error {
	var errs []error
	if o.MaxInFlight < 1 {
		errs = append(errs, errors.New("--delivery-max-in-flight must be at least 1"))
	}
	if o.MaxAttempts < 1 {
		errs = append(errs, errors.New("--delivery-max-attempts must be at least 1"))
	}
	if o.Backoff.Base <= 0 || o.Backoff.Max < o.Backoff.Base {
		errs = append(errs, errors.New("--delivery-backoff must be positive and at most --delivery-backoff-max"))
	}
	if o.AckWait < time.Second {
		errs = append(errs, errors.New("--delivery-ack-wait must be at least 1s"))
	}
	if o.MaxHops < 1 {
		errs = append(errs, errors.New("--delivery-max-hops must be at least 1"))
	}
	if o.MaxCaused < 1 {
		errs = append(errs, errors.New("--delivery-max-caused must be at least 1"))
	}
	if o.DrainTimeout < 0 {
		errs = append(errs, errors.New("--delivery-drain-timeout must not be negative"))
	}
	return errors.Join(errs...)
}
