package daemon

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
)

func newLog(t *testing.T, config Config) (*Log, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	if config.Level == "" {
		config.Level = "info"
	}
	log, err := New(&out, "eventbridge", config)
	require.NoError(t, err)
	return log, &out
}

func lines(out *bytes.Buffer) int { return strings.Count(out.String(), "\n") }

func TestALevelAndAFormatAreInForceWithTheNextLineAlsoOfLoggersMadeBefore(t *testing.T) {
	t.Parallel()
	log, out := newLog(t, Config{})
	logger := log.Logger().WithName("delivery").WithValues("subscription", "shop/orders")
	logger.V(1).Info("hidden")
	require.Zero(t, lines(out))

	require.NoError(t, log.Set(Config{Level: "debug"}))
	logger.V(1).Info("shown", "id", "1")
	var line map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &line))
	delete(line, "time")
	require.Equal(t, map[string]any{
		"level": "DEBUG", "msg": "shown", "subscription": "shop/orders", "logger": "delivery", "id": "1",
	}, line)
	logger.V(2).Info("deeper levels stay hidden")
	require.Equal(t, 1, lines(out))

	out.Reset()
	require.NoError(t, log.Set(Config{Level: "error", Format: FormatText}))
	logger.Info("hidden")
	logger.Error(errors.New("no"), "broken")
	require.Contains(t, out.String(), `level=ERROR msg=broken subscription=shop/orders logger=delivery err=no`)
	require.Equal(t, 1, lines(out))
}

func TestABadConfigChangesNothing(t *testing.T) {
	t.Parallel()
	log, out := newLog(t, Config{Level: "debug"})
	require.ErrorContains(t, log.Set(Config{Level: "loud"}), `level "loud": use debug, info, warn or error`)
	require.ErrorContains(t, log.Set(Config{Level: "info", Components: map[string]string{"eventbridge/a": "x"}}), `level of eventbridge/a "x"`)
	log.Logger().V(1).Info("still shown")
	require.Equal(t, 1, lines(out))
}

func TestLongestMatchingComponentNameSetsTheLevel(t *testing.T) {
	t.Parallel()
	log, _ := newLog(t, Config{Level: "warn", Components: map[string]string{
		"eventbridge/delivery": "debug", "eventbridge/delivery/sink": "error", "controller": "debug", "eventbridge/function": "info",
	}})
	logger := log.Logger()
	for name, tc := range map[string]struct {
		enabled, want bool
	}{
		"the process":                    {logger.Enabled(), false},
		"a component":                    {logger.WithName("delivery").V(1).Enabled(), true},
		"a part of the component":        {logger.WithName("delivery").WithName("gate").V(1).Enabled(), true},
		"a part with its own level":      {logger.WithName("delivery").WithName("sink").Enabled(), false},
		"a component with a longer name": {logger.WithName("deliveryX").Enabled(), false},
		"a controller":                   {logger.WithValues("controller", "function").Enabled(), true},
		"a controller, but no more":      {logger.WithValues("controller", "function").V(1).Enabled(), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.enabled)
		})
	}
}

func TestLinesAboutADebuggedObjectAreShownUntilItsTime(t *testing.T) {
	t.Parallel()
	log, out := newLog(t, Config{DebugLines: 50})
	now := time.Now()
	log.now = func() time.Time { return now }
	log.Debug(Object{Subscription, "shop", "orders"}, now.Add(time.Minute))
	log.Debug(Object{Function, "shop", "price"}, now.Add(time.Minute))
	logger := log.Logger()
	for name, tc := range map[string]struct {
		values []any
		want   bool
	}{
		"the Subscription":              {[]any{"subscription", "shop/orders"}, true},
		"its reconciliation":            {[]any{"Subscription", klog.KRef("shop", "orders")}, true},
		"another":                       {[]any{"subscription", "shop/invoices"}, false},
		"one of another namespace":      {[]any{"subscription", "billing/orders"}, false},
		"a Function of the name":        {[]any{"service", "shop/orders"}, false},
		"deliveries to the Function":    {[]any{"subscription", "shop/invoices", "service", "shop/price"}, true},
		"the Function":                  {[]any{"function", "price", "namespace", "shop"}, true},
		"the Function's reconciliation": {[]any{"Function", klog.KRef("shop", "price")}, true},
		"no object":                     {nil, false},
	} {
		require.Equal(t, tc.want, logger.WithValues(tc.values...).V(1).Enabled(), name)
		require.False(t, logger.WithValues(tc.values...).V(2).Enabled(), name)
	}
	orders := logger.WithValues("subscription", "shop/orders")
	orders.V(1).Info("shown")
	require.Equal(t, 1, lines(out))

	now = now.Add(time.Minute)
	orders.V(1).Info("hidden")
	require.False(t, orders.V(1).Enabled())
	log.End(Object{Function, "shop", "price"})
	require.Zero(t, log.count.Load())
	require.Equal(t, 1, lines(out))
}

func TestDebuggedTenantIsThrottledAndDoesNotUseOthersLines(t *testing.T) {
	t.Parallel()
	const perSecond = 10
	log, out := newLog(t, Config{DebugLines: perSecond})
	now := time.Now()
	log.now = func() time.Time { return now }
	for _, namespace := range []string{"loud", "quiet"} {
		log.Debug(Object{Subscription, namespace, "orders"}, now.Add(time.Hour))
	}
	loud, quiet := log.Logger().WithValues("subscription", "loud/orders"), log.Logger().WithValues("subscription", "quiet/orders")
	for range 10_000 {
		loud.V(1).Info("settled")
	}
	require.Equal(t, perSecond, lines(out))
	require.EqualValues(t, 10_000-perSecond, log.Dropped())
	quiet.V(1).Info("of another")
	loud.Info("the usual lines are as ever")
	require.Equal(t, perSecond+2, lines(out))

	out.Reset()
	now = now.Add(100 * time.Millisecond)
	loud.V(1).Info("settled")
	loud.V(1).Info("settled")
	require.Equal(t, 1, lines(out))
	require.Contains(t, out.String(), `"linesLeftOut":9990`)

	require.NoError(t, log.Set(Config{Level: "info", DebugLines: 0}))
	now = now.Add(time.Minute)
	loud.V(1).Info("the level was reset")
	require.Equal(t, 1, lines(out))
}

func TestManyTenantsTogetherAreBounded(t *testing.T) {
	t.Parallel()
	var s share
	now := time.Now()
	taken := 0
	for i := range 10_000 {
		if _, ok := s.take(strings.Repeat("n", i%3000), 10, now); ok {
			taken++
		}
	}
	require.Equal(t, wholeShare*10, taken)
	require.LessOrEqual(t, len(s.namespaces), 2*maxBuckets+1)
}

func TestLoggersAndChangesMayRunAtOnce(t *testing.T) {
	t.Parallel()
	log, out := newLog(t, Config{DebugLines: 1000})
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			logger := log.Logger().WithName("delivery").WithValues("subscription", "shop/orders")
			for range 200 {
				logger.V(1).Info("line")
				logger.Info("line")
			}
		})
	}
	work.Go(func() {
		for i := range 200 {
			_ = log.Set(Config{Level: []string{"debug", "info"}[i%2], Format: []string{FormatText, FormatJSON}[i%2], DebugLines: 10})
			log.Debug(Object{Subscription, "shop", "orders"}, time.Now().Add(time.Duration(i%2)*time.Hour))
		}
	})
	work.Wait()
	for line := range strings.Lines(out.String()) {
		require.True(t, strings.HasPrefix(line, "{") || strings.HasPrefix(line, "time="), line)
	}
}

func TestUntilAcceptsAtMostOneHour(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		text    string
		want    time.Time
		problem string
	}{
		"half an hour":                  {"2026-05-01T12:30:00Z", now.Add(30 * time.Minute), ""},
		"of another zone":               {"2026-05-01T14:30:00+02:00", now.Add(30 * time.Minute), ""},
		"an hour ahead by a fast clock": {"2026-05-01T13:03:00Z", now.Add(time.Hour), ""},
		"passed":                        {"2026-05-01T11:00:00Z", now.Add(-time.Hour), ""},
		"a day":                         {"2026-05-02T12:00:00Z", time.Time{}, "it is more than one hour ahead: 2026-05-01T13:00:00Z is the latest"},
		"a duration":                    {"1h", time.Time{}, "it must be a time such as 2026-05-01T13:00:00Z, at most one hour ahead"},
		"nothing":                       {"", time.Time{}, "it must be a time"},
		"a far future":                  {"9999-12-31T23:59:59Z", time.Time{}, "more than one hour ahead"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			until, err := Until(tc.text, now)
			if tc.problem != "" {
				require.ErrorContains(t, err, tc.problem)
				return
			}
			require.NoError(t, err)
			require.True(t, tc.want.Equal(until), until)
		})
	}
}

func TestOfFindsTheLogOfALogger(t *testing.T) {
	t.Parallel()
	log, _ := newLog(t, Config{})
	require.Same(t, log, Of(log.Logger().WithName("a").WithValues("b", 1).V(1)))
	require.Nil(t, Of(klog.Background()))
}
