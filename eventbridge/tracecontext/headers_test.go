package tracecontext

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

func TestTraceHeadersComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	published := http.Header{}
	for name, value := range map[string]string{
		"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "X-B3-TraceId": "a", "X-B3-ParentSpanId": "b",
		"X-B3-SpanId": "c", "X-B3-Sampled": "1", "X-B3-Flags": "0", "tracestate": "a=1,b=2",
	} {
		published.Set(name, value)
	}
	ev := cloudevent.Event{ID: "1", Source: "shop", Type: "order"}
	ev.SetExtension("b3sampled", "0")
	ev.SetExtension("region", "eu")
	Extract(published, &ev)
	require.Equal(t, "1", ev.Extension("b3sampled"), "the header wins")

	sent := http.Header{}
	ev.SetHeader(sent)
	Inject(sent)
	require.Equal(t, "eu", sent.Get("Ce-Region"))
	for _, p := range pairs() {
		require.Equal(t, published.Get(p.header), sent.Get(p.header), p.header)
		require.NotEmpty(t, sent.Get(p.header))
		require.Empty(t, sent.Get(p.extensionHeader))
	}
}

func TestTheStateOfATraceComesWithItsParent(t *testing.T) {
	t.Parallel()
	var ev cloudevent.Event
	Extract(http.Header{"Tracestate": {"a=1"}}, &ev)
	require.Empty(t, ev.Extensions)
	Extract(http.Header{"Tracestate": {"a=1", "b=2"}, "Traceparent": {"00-0-0-01"}}, &ev)
	require.Equal(t, "a=1,b=2", ev.Extension("tracestate"), "as it may come in several headers")
}

func TestAnEventWithoutATraceGetsNone(t *testing.T) {
	t.Parallel()
	var ev cloudevent.Event
	Extract(http.Header{}, &ev)
	require.Empty(t, ev.Extensions)
	header := http.Header{"Ce-Id": {"1"}}
	Inject(header)
	require.Equal(t, http.Header{"Ce-Id": {"1"}}, header)
}
