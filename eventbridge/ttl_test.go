package eventbridge

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

func TestEventsOfAPausedSubscriptionExpireAndCanBeRedriven(t *testing.T) {
	t.Parallel()
	sink := loopback.StartSink(t, nil)
	w := newFixture(t, loopback.Ready(sink.Address()))
	route := orders(sinkURL)
	route.Paused = true
	route.Delivery.TTL = 500 * time.Millisecond
	w.routes.set(route)
	bridge := w.start(t)
	bridge.publishMany(t, 0, 20)
	require.Eventually(t, func() bool { return w.deadLetters(t) == 20 }, timeout, tick)
	w.backlogIs(t, 0, 0)
	page, err := w.conn.ListDeadLetters(t.Context(), broker.DeadLetterQuery{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, failure.Expired, page.DeadLetters[0].Reason)
	require.Zero(t, page.DeadLetters[0].Attempts)

	route.Paused = false
	route.Delivery.TTL = time.Hour
	w.routes.set(route)
	redriven, err := w.conn.Redrive(t.Context(), broker.DefaultStream, broker.DeadLetterSelection{})
	require.NoError(t, err)
	require.EqualValues(t, 20, redriven.Redriven)
	w.backlogIs(t, 0, 0)
	require.Len(t, sink.Requests(), 20)
}

func TestARedriveBeginsTheTimeOfAnEventAgain(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	route := orders(sinkURL)
	route.Delivery.TTL = 2 * time.Second
	w.routes.set(route)
	bridge := w.start(t)
	bridge.publishMany(t, 0, 1)
	require.Eventually(t, func() bool { return w.deadLetters(t) == 1 }, timeout, tick)
	began := time.Now()
	redriven, err := w.conn.Redrive(t.Context(), broker.DefaultStream, broker.DeadLetterSelection{})
	require.NoError(t, err)
	require.EqualValues(t, 1, redriven.Redriven)
	require.Eventually(t, func() bool { return w.deadLetters(t) == 1 }, timeout, tick)
	require.GreaterOrEqual(t, time.Since(began), route.Delivery.TTL)
}
