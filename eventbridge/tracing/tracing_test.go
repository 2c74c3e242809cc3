package tracing

import (
	"net/http"
	"testing"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/stretchr/testify/require"
)

func TestTraceHeadersComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	published := http.Header{}
	for name, value := range map[string]string{
		"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "X-B3-TraceId": "a", "X-B3-ParentSpanId": "b",
		"X-B3-SpanId": "c", "X-B3-Sampled": "1", "X-B3-Flags": "0", "tracestate": "dropped",
	} {
		published.Set(name, value)
	}
	ev := event.New()
	ev.SetID("1")
	ev.SetSource("shop")
	ev.SetType("order")
	ev.SetExtension("b3sampled", "0")
	ev.SetExtension("region", "eu")
	Extract(published, &ev)
	require.Equal(t, "1", ev.Extensions()["b3sampled"], "the header wins")
	require.NotContains(t, ev.Extensions(), "tracestate")

	sent, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost", http.NoBody)
	require.NoError(t, err)
	require.NoError(t, cehttp.WriteRequest(t.Context(), (*binding.EventMessage)(&ev), sent))
	Inject(sent.Header)

	require.Equal(t, "eu", sent.Header.Get("Ce-Region"))
	for _, p := range pairs() {
		require.Equal(t, published.Get(p.header), sent.Header.Get(p.header), p.header)
		require.Empty(t, sent.Header.Get(p.extensionHeader))
	}
}

func TestAnEventWithoutATraceGetsNone(t *testing.T) {
	t.Parallel()
	ev := event.New()
	Extract(http.Header{}, &ev)
	require.Empty(t, ev.Extensions())
	header := http.Header{"Ce-Id": {"1"}}
	Inject(header)
	require.Equal(t, http.Header{"Ce-Id": {"1"}}, header)
}
