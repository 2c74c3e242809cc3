package tracing

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/testing/otlptest"
)

func TestLastSpansAreSentAfterTheContextHasEnded(t *testing.T) {
	t.Parallel()
	collector := otlptest.Start(t)
	provider, err := New(t.Context(), Options{Endpoint: collector.URL, SampleRatio: 1}, "rouse-test", logr.Discard())
	require.NoError(t, err)
	_, span := provider.Tracer("test").Start(t.Context(), "work")
	span.End()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, provider.Close(ended))
	require.Len(t, collector.Spans(), 1)
	require.Equal(t, "rouse-test", collector.Resource("service.name"))
	require.NotEmpty(t, collector.Resource("service.instance.id"))
}

func TestAnUnreachableCollectorBlocksNothingAndIsLoggedOnce(t *testing.T) {
	t.Parallel()
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }))
	t.Cleanup(away.Close)
	var lines sync.Map
	log := funcr.New(func(_, args string) {
		count, _ := lines.LoadOrStore(args, 0)
		lines.Store(args, count.(int)+1) //nolint:forcetypeassert // only ints are stored
	}, funcr.Options{})
	provider, err := New(t.Context(), Options{Endpoint: away.URL, SampleRatio: 1}, "test", log)
	require.NoError(t, err)
	for range 3 {
		for range maxQueue * 2 { // more than fit the queue
			_, span := provider.Tracer("test").Start(t.Context(), "work")
			span.End()
		}
		require.NoError(t, provider.ForceFlush(t.Context()))
	}
	require.NoError(t, provider.Close(t.Context()))
	noted := 0
	lines.Range(func(_, count any) bool {
		noted += count.(int) //nolint:forcetypeassert // as above
		return true
	})
	require.Equal(t, 1, noted)
}

func TestWithoutACollectorThereIsNoProvider(t *testing.T) {
	t.Parallel()
	provider, err := New(t.Context(), DefaultOptions(), "test", logr.Discard())
	require.NoError(t, err)
	require.Nil(t, provider)
	require.NoError(t, provider.Close(t.Context()))
}

func TestInvalidTraceOptionsAreReported(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"the defaults":    {},
		"a collector":     {args: []string{"--trace-endpoint=https://collector:4318/v1/traces", "--trace-sample-ratio=0.05"}},
		"not a URL":       {args: []string{"--trace-endpoint=collector:4318"}, want: "--trace-endpoint"},
		"another scheme":  {args: []string{"--trace-endpoint=grpc://collector:4317"}, want: "--trace-endpoint"},
		"a ratio above 1": {args: []string{"--trace-sample-ratio=1.5"}, want: "--trace-sample-ratio"},
		"not a number":    {args: []string{"--trace-sample-ratio=NaN"}, want: "--trace-sample-ratio"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := DefaultOptions()
			fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
			flags.Bind(fs, &options)
			require.NoError(t, fs.Parse(tc.args))
			if tc.want == "" {
				require.NoError(t, flags.Validate(&options))
				return
			}
			require.ErrorContains(t, flags.Validate(&options), tc.want)
		})
	}
}

func TestSpansAreSentToTheCurrentCollector(t *testing.T) {
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
	require.NoError(t, live.Collect(first.URL), "the same endpoint must have no effect")
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
