package dispatch

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/flags"
)

// broken is a message that cannot be settled for a bug.
type broken struct{ Message }

// Event implements Message.
func (*broken) Event() (cloudevent.Event, error) { return cloudevent.Event{}, nil }

// Attempt implements Message.
func (*broken) Attempt() int { return 1 }

// Release implements Message.
func (*broken) Release() {}

// Ack implements Message.
func (*broken) Ack(context.Context) error { panic("a bug") }

// accepting is a sink that takes everything.
type accepting struct{}

// Send implements Sink.
func (accepting) Send(context.Context, *cloudevent.Event) (Answer, error) {
	return Answer{Status: 204}, nil
}

func TestAPanicWhileSettlingFreesOneSlot(t *testing.T) {
	t.Parallel()
	d := New(Deps{MaxInFlight: 2, Sink: accepting{}, Metrics: NewMetrics(prometheus.NewRegistry()), Log: logr.Discard()}, DefaultOptions())
	d.workers.run = func(j *job) { d.deliver(t.Context(), j) }
	for range 5 {
		d.accept(&broken{})
	}
	d.workers.wait()
	d.held.stop()
	require.Zero(t, d.scheduler.running)
	require.Zero(t, d.held.count())
}

func TestASubscriptionHasItsSeriesFromTheFirstMessageOn(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	d := New(Deps{MaxInFlight: 1, Sink: accepting{}, Metrics: NewMetrics(registry), Log: logr.Discard()}, DefaultOptions())
	require.Zero(t, testutil.CollectAndCount(registry))
	d.workers.run = func(j *job) { d.deliver(t.Context(), j) }
	d.accept(&broken{})
	d.workers.wait()
	d.held.stop()
	for _, name := range []string{"deliveries_total", "settle_errors_total", "filter_errors_total", "replies_total", "calls_detached_total"} {
		require.NotZero(t, testutil.CollectAndCount(registry, prefix+name), name)
	}
}

type repliesFunc func(reply *cloudevent.Event) error

func (f repliesFunc) Publish(_ context.Context, reply *cloudevent.Event) error { return f(reply) }

func TestAReplyCarriesTheTraceOn(t *testing.T) {
	t.Parallel()
	const ofCause, ofSink = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b8-01"
	for name, tc := range map[string]struct{ cause, reply, want string }{
		"that its event was delivered with": {cause: ofCause, want: ofCause},
		"that the sink gave it":             {cause: ofCause, reply: ofSink, want: ofSink},
		"that there is not":                 {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var published *cloudevent.Event
			d := &Dispatcher{
				Deps: Deps{Log: logr.Discard(), Replies: repliesFunc(func(reply *cloudevent.Event) error {
					published = reply
					return nil
				})},
				options: DefaultOptions(),
				series:  series{metrics: NewMetrics(prometheus.NewRegistry())},
			}
			var cause, reply cloudevent.Event
			if tc.cause != "" {
				cause.SetExtension(extensionTrace, tc.cause)
			}
			if tc.reply != "" {
				reply.SetExtension(extensionTrace, tc.reply)
			}
			require.Equal(t, delivered, d.publishReply(t.Context(), nil, &cause, Answer{Reply: &reply}))
			require.Equal(t, tc.want, published.Extension(extensionTrace))
		})
	}
}

func TestNoPublisherMakesAChainLonger(t *testing.T) {
	t.Parallel()
	for hops, want := range map[string]string{
		"": "1", "odd": "1", "31": "32", "32": "", "-7": "1", "-9223372036854775808": "1", "9223372036854775807": "",
		"99999999999999999999": "",
	} {
		t.Run(hops, func(t *testing.T) {
			t.Parallel()
			d := &Dispatcher{
				Deps:    Deps{Log: logr.Discard(), Replies: repliesFunc(func(*cloudevent.Event) error { return nil })},
				options: DefaultOptions(),
				series:  series{metrics: NewMetrics(prometheus.NewRegistry())},
			}
			var cause, reply cloudevent.Event
			cause.SetExtension(ExtensionHops, hops)
			result := d.publishReply(t.Context(), nil, &cause, Answer{Reply: &reply})
			require.Equal(t, want == "", result == looping)
			require.Equal(t, want, reply.Extension(ExtensionHops))
		})
	}
}

func TestDefaultOptionsAreValidAndRetryForAboutHalfAnHour(t *testing.T) {
	t.Parallel()
	options := DefaultOptions()
	require.NoError(t, flags.Validate(&options))
	var total time.Duration
	for attempt := 1; attempt < options.MaxAttempts; attempt++ {
		total += options.Backoff.Delay(attempt, 0, 0.5)
	}
	require.InDelta(t, 33*time.Minute, total, float64(2*time.Minute))
}

func TestOptionsNameEveryLimitThatCannotWork(t *testing.T) {
	t.Parallel()
	options := DefaultOptions()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	flags.Bind(fs, &options)
	require.NoError(t, fs.Parse([]string{
		"--delivery-max-in-flight=0", "--delivery-max-attempts=0", "--delivery-backoff=1m", "--delivery-backoff-max=1s",
		"--delivery-ack-wait=1ms", "--delivery-drain-timeout=-1s",
	}))
	err := flags.Validate(&options)
	for _, flag := range []string{"max-in-flight", "max-attempts", "backoff", "ack-wait", "drain-timeout"} {
		require.ErrorContains(t, err, "--delivery-"+flag)
	}
}
