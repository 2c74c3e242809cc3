package dispatch

import (
	"context"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

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
				metrics: NewMetrics(prometheus.NewRegistry()).bind(Subscription{}),
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
				metrics: NewMetrics(prometheus.NewRegistry()).bind(Subscription{}),
			}
			var cause, reply cloudevent.Event
			cause.SetExtension(ExtensionHops, hops)
			result := d.publishReply(t.Context(), nil, &cause, Answer{Reply: &reply})
			require.Equal(t, want == "", result == looping)
			require.Equal(t, want, reply.Extension(ExtensionHops))
		})
	}
}
