package scaler

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/tracing"
)

// Options configures a Scaler.
type Options struct {
	// GRPCAddress is the address that KEDA connects to.
	GRPCAddress string
	// Stream is the JetStream stream that holds the events.
	Stream string
	// Sinks are the sinks that are allowed outside of a Subscription's own namespace.
	Sinks routing.Policy
	// Refresh paces the reading of backlogs.
	Refresh RefreshOptions
	// Push paces what is sent on KEDA's streams.
	Push PushOptions
	// HTTP is about calls over HTTP.
	HTTP HTTPOptions
	// TLS secures the gRPC port. Its zero value means plain text.
	TLS TLSOptions
	// Tracing says where spans of KEDA's calls go.
	Tracing tracing.Options
	// AnswerTimeout bounds every unary call.
	AnswerTimeout time.Duration
	// FirstAnswerWait bounds how long a call waits for the first reading of a
	// Function that was not known before.
	FirstAnswerWait time.Duration
	// ForgetAfter bounds how long a Function is watched after KEDA's last request.
	ForgetAfter time.Duration
	// DrainDelay is how long everything goes on after the stop signal, so that
	// name resolution can lead KEDA elsewhere first.
	DrainDelay time.Duration
	// DrainTimeout bounds each of the two steps of a stop: ending the streams
	// and finishing the calls.
	DrainTimeout time.Duration
}

// RefreshOptions paces the reading of backlogs.
type RefreshOptions struct {
	// ActiveInterval is the pause between readings while there is a backlog.
	ActiveInterval time.Duration
	// IdleInterval is the shortest pause between readings while there is none.
	// The longest is twice that.
	IdleInterval time.Duration
	// Timeout bounds one reading.
	Timeout time.Duration
	// MaxAge is the age at which a reading is no longer an answer.
	MaxAge time.Duration
	// WakeGrace is the time after a publish during which a backlog of 0 is not trusted.
	WakeGrace time.Duration
}

// PushOptions paces what is sent on KEDA's streams.
type PushOptions struct {
	// Repeat is the pause between two activations until the Function has a
	// ready endpoint, because KEDA does not retry a failed one.
	Repeat time.Duration
	// RepeatFor ends that: a Function that cannot start must not cost KEDA a
	// status patch per second for ever.
	RepeatFor time.Duration
	// Heartbeat is the pause between two activations after that.
	Heartbeat time.Duration
	// Lifetime is the shortest life of a stream. The longest is twice that.
	Lifetime time.Duration
}

// DefaultOptions are the values that a cluster runs with.
func DefaultOptions() Options {
	return Options{
		GRPCAddress: ":9000",
		Stream:      "sap",
		Refresh: RefreshOptions{
			ActiveInterval: 2 * time.Second,
			IdleInterval:   5 * time.Second,
			Timeout:        2 * time.Second,
			MaxAge:         15 * time.Second,
			WakeGrace:      2 * time.Second,
		},
		Push: PushOptions{
			Repeat:    time.Second,
			RepeatFor: time.Minute,
			Heartbeat: 12 * time.Second,
			Lifetime:  10 * time.Minute,
		},
		HTTP:            HTTPOptions{ActivatorGrace: 15 * time.Second},
		Tracing:         tracing.DefaultOptions(),
		AnswerTimeout:   time.Second,
		FirstAnswerWait: 500 * time.Millisecond,
		ForgetAfter:     15 * time.Minute,
		DrainDelay:      3 * time.Second,
		DrainTimeout:    5 * time.Second,
	}
}

// BindFlags adds the options to fs, with their present values as defaults.
func (o *Options) BindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.GRPCAddress, "grpc-address", o.GRPCAddress, "address that KEDA connects to")
	fs.StringVar(&o.Stream, "stream-name", o.Stream, "JetStream stream that holds the events")
	fs.DurationVar(&o.AnswerTimeout, "answer-timeout", o.AnswerTimeout, "bound of every unary call")
	fs.DurationVar(&o.FirstAnswerWait, "first-answer-wait", o.FirstAnswerWait, "how long a call waits for the first reading of a Function")
	fs.DurationVar(&o.ForgetAfter, "forget-after", o.ForgetAfter, "how long a Function is followed after KEDA last asked for it")
	fs.DurationVar(&o.DrainDelay, "drain-delay", o.DrainDelay, "how long to go on after the stop signal")
	fs.DurationVar(&o.DrainTimeout, "drain-timeout", o.DrainTimeout, "how long streams, and then calls, may take to end")
	o.Sinks.BindFlags(fs)
	o.Refresh.bindFlags(fs)
	o.Push.bindFlags(fs)
	o.HTTP.bindFlags(fs)
	o.TLS.bindFlags(fs)
	o.Tracing.BindFlags(fs)
}

func (o *RefreshOptions) bindFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.ActiveInterval, "refresh-active-interval", o.ActiveInterval, "pause between readings of a backlog that is not 0")
	fs.DurationVar(&o.IdleInterval, "refresh-idle-interval", o.IdleInterval, "shortest pause between readings of a backlog that is 0; the longest is twice that")
	fs.DurationVar(&o.Timeout, "refresh-timeout", o.Timeout, "bound of one reading")
	fs.DurationVar(&o.MaxAge, "refresh-max-age", o.MaxAge, "age at which a reading is no longer an answer")
	fs.DurationVar(&o.WakeGrace, "wake-grace", o.WakeGrace, "how long after a publish a backlog of 0 is not believed")
}

func (o *PushOptions) bindFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.Repeat, "push-repeat", o.Repeat, "pause between activations until the Function has a ready endpoint")
	fs.DurationVar(&o.RepeatFor, "push-repeat-for", o.RepeatFor, "how long to repeat at that pace")
	fs.DurationVar(&o.Heartbeat, "push-heartbeat", o.Heartbeat, "pause between activations after that")
	fs.DurationVar(&o.Lifetime, "push-lifetime", o.Lifetime, "shortest life of a stream; the longest is twice that")
}

// Validate reports everything that is wrong.
func (o *Options) Validate() error {
	var errs []error
	if o.GRPCAddress == "" {
		errs = append(errs, errors.New("--grpc-address must not be empty"))
	}
	if o.Stream == "" {
		errs = append(errs, errors.New("--stream-name must not be empty"))
	}
	for flag, value := range o.positive() {
		if value <= 0 {
			errs = append(errs, fmt.Errorf("--%s must be more than 0, is %s", flag, value))
		}
	}
	if o.DrainDelay < 0 || o.Refresh.WakeGrace < 0 || o.HTTP.ActivatorGrace < 0 {
		errs = append(errs, errors.New("--drain-delay, --wake-grace and --activator-grace must not be negative"))
	}
	if o.FirstAnswerWait >= o.AnswerTimeout {
		errs = append(errs, fmt.Errorf("--first-answer-wait (%s) must be less than --answer-timeout (%s)", o.FirstAnswerWait, o.AnswerTimeout))
	}
	if longest := 2*o.Refresh.IdleInterval + o.Refresh.Timeout; o.Refresh.MaxAge < longest {
		errs = append(errs, fmt.Errorf(
			"--refresh-max-age (%s) must be at least %s, twice --refresh-idle-interval plus --refresh-timeout",
			o.Refresh.MaxAge, longest))
	}
	return errors.Join(append(errs, o.Sinks.Validate(), o.TLS.validate(), o.Tracing.Validate())...)
}

// positive lists the durations that a timer needs, by flag.
func (o *Options) positive() map[string]time.Duration {
	return map[string]time.Duration{
		"answer-timeout":          o.AnswerTimeout,
		"first-answer-wait":       o.FirstAnswerWait,
		"forget-after":            o.ForgetAfter,
		"drain-timeout":           o.DrainTimeout,
		"refresh-active-interval": o.Refresh.ActiveInterval,
		"refresh-idle-interval":   o.Refresh.IdleInterval,
		"refresh-timeout":         o.Refresh.Timeout,
		"refresh-max-age":         o.Refresh.MaxAge,
		"push-repeat":             o.Push.Repeat,
		"push-repeat-for":         o.Push.RepeatFor,
		"push-heartbeat":          o.Push.Heartbeat,
		"push-lifetime":           o.Push.Lifetime,
	}
}
