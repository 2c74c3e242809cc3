package tracing

import (
	"context"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/otlptest"
)

func TestSpansGoToTheCollectorOfTheMoment(t *testing.T) {
	t.Parallel()
	first, second := otlptest.Start(t), otlptest.Start(t)
	live, err := NewLive(t.Context(), DefaultOptions(), "rouse-test", logr.Discard())
	require.NoError(t, err)
	tracer := live.Tracer("test")
	work := func(name string) bool {
		_, span := tracer.Start(t.Context(), name)
		defer span.End()
		return span.IsRecording()
	}
	require.False(t, live.Active())
	require.False(t, work("before"))

	require.NoError(t, live.Collect(first.URL))
	require.True(t, live.Active())
	require.True(t, work("one"))
	require.NoError(t, live.Collect(first.URL), "the same again changes nothing")
	require.NoError(t, live.Collect(second.URL))
	require.True(t, work("two"))
	require.Error(t, live.Collect("grpc://elsewhere"))
	require.True(t, work("three"))
	require.NoError(t, live.Collect(""))
	require.False(t, work("after"))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, live.Close(ended))
	require.NoError(t, live.Close(ended), "it may be closed twice")

	names := func(c *otlptest.Collector) (all []string) {
		for _, span := range c.Spans() {
			all = append(all, span.GetName())
		}
		return all
	}
	require.Equal(t, []string{"one"}, names(first))
	require.Equal(t, []string{"two", "three"}, names(second))
}
