package scaler

import (
	"fmt"
	"time"

	"github.com/rouse-run/rouse/internal/flags"
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
	// Repeat is the first pause between two activations until the Function has a
	// ready endpoint, because KEDA does not retry a failed one. Each next pause is
	// twice as long, up to Heartbeat.
	Repeat time.Duration
	// RepeatFor ends that where the pauses are still shorter. A call to a Function
	// that starts is a new activation when there was none for as long.
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

// Flags declares the flags of the scaler and its parts.
func (o *Options) Flags(fs *flags.Set) {
	fs.String(&o.GRPCAddress, "grpc-address", "address that KEDA connects to").NotEmpty()
	fs.String(&o.Stream, "stream-name", "JetStream stream that holds the events").NotEmpty()
	fs.Duration(&o.AnswerTimeout, "answer-timeout", "bound of every unary call").MoreThan(0)
	fs.Duration(&o.FirstAnswerWait, "first-answer-wait", "how long a call waits for the first reading of a Function").MoreThan(0)
	fs.Require(o.FirstAnswerWait < o.AnswerTimeout, "--first-answer-wait (%s) must be less than --answer-timeout (%s)", o.FirstAnswerWait, o.AnswerTimeout)
	fs.Duration(&o.ForgetAfter, "forget-after", "how long a Function is followed after KEDA last asked for it").MoreThan(0)
	fs.Duration(&o.DrainDelay, "drain-delay", "how long to go on after the stop signal").AtLeast(0)
	fs.Duration(&o.DrainTimeout, "drain-timeout", "how long streams, and then calls, may take to end").MoreThan(0)
	fs.Add(&o.Sinks, &o.Refresh, &o.Push, &o.HTTP, &o.TLS, &o.Tracing)
}

// Flags implements flags.Options.
func (o *RefreshOptions) Flags(fs *flags.Set) {
	fs.Duration(&o.ActiveInterval, "refresh-active-interval", "pause between readings of a backlog that is not 0").MoreThan(0)
	fs.Duration(&o.IdleInterval, "refresh-idle-interval",
		"shortest pause between readings of a backlog that is 0; the longest is twice that").MoreThan(0)
	fs.Duration(&o.Timeout, "refresh-timeout", "bound of one reading").MoreThan(0)
	longest := 2*o.IdleInterval + o.Timeout
	fs.Duration(&o.MaxAge, "refresh-max-age", "age at which a reading is no longer an answer").
		Must(o.MaxAge >= longest, fmt.Sprintf("be at least %s, twice --refresh-idle-interval plus --refresh-timeout", longest))
	fs.Duration(&o.WakeGrace, "wake-grace", "how long after a publish a backlog of 0 is not believed").AtLeast(0)
}

// Flags implements flags.Options.
func (o *PushOptions) Flags(fs *flags.Set) {
	fs.Duration(&o.Repeat, "push-repeat", "first pause between activations until the Function has a ready endpoint; it doubles up to --push-heartbeat").MoreThan(0)
	fs.Duration(&o.RepeatFor, "push-repeat-for", "how long to repeat at those pauses").MoreThan(0)
	fs.Duration(&o.Heartbeat, "push-heartbeat", "pause between activations after that").MoreThan(0)
	fs.Duration(&o.Lifetime, "push-lifetime", "shortest life of a stream; the longest is twice that").MoreThan(0)
}
