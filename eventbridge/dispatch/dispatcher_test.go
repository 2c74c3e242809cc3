package dispatch_test

import (
	"context"
	"net/http"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/dispatch/dispatchtest"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDispatcherSuiteInMemory(t *testing.T) {
	t.Parallel()
	dispatchtest.Run(t, func(*testing.T) dispatchtest.Backend { return dispatchtest.NewMemory(dispatchtest.AckWait) })
}

// As many events as may be in flight hang at each of their attempts, and nothing else is there most of the time: when they time
// out, their sink is left with one slot.
func TestHangingEventsBlockOthersForAQuarterOfTheirTimeoutPerAttempt(t *testing.T) {
	t.Parallel()
	const timeout = 80 * time.Second
	synctest.Test(t, func(t *testing.T) {
		memory := dispatchtest.NewMemory(30 * time.Second)
		arrived := make(chan time.Time, 1)
		sink := dispatchtest.NewSink(func(ctx context.Context, ev cloudevent.Event, _ int) (dispatch.Answer, error) {
			if n, _ := strconv.Atoi(ev.ID); n >= dispatchtest.MaxAckPending {
				arrived <- time.Now()
				return dispatchtest.Status(http.StatusOK), nil
			}
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			<-ctx.Done()
			return dispatch.Answer{}, ctx.Err()
		})
		options := dispatch.DefaultOptions()
		options.Timeout, options.MaxAttempts, options.Backoff.Max = timeout, 1000, time.Second
		options.DrainTimeout = 0
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			dispatch.New(dispatch.Deps{
				MaxInFlight: dispatchtest.MaxAckPending, Source: memory.Source(t, false), Gate: dispatchtest.NewGate(true), Sink: sink,
				Metrics: dispatch.NewMetrics(prometheus.NewRegistry()), Log: logr.Discard(),
			}, options).Run(ctx)
		}()
		events := dispatchtest.Events(100)
		memory.Publish(t, events[:dispatchtest.MaxAckPending]...)
		var longest time.Duration
		for i, ev := range events[dispatchtest.MaxAckPending:] {
			time.Sleep(7*timeout + time.Duration(i)*time.Second)
			published := time.Now()
			memory.Publish(t, ev)
			longest = max(longest, (<-arrived).Sub(published))
		}
		stop()
		<-ended
		t.Logf("the longest that an event was held up was %s", longest)
		require.LessOrEqual(t, longest, timeout/4+time.Second, "and a pause")
	})
}
