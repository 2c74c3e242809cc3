package dispatch

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The next owner of the ordered messages waits for what the scheduler of the last one still holds.
func TestAClearedSchedulerKeepsNothingForAnotherAttempt(t *testing.T) {
	t.Parallel()
	d := newScheduler(1, 0, nil)
	var started []*job
	d.start = func(j *job) { started = append(started, j) }
	before, after := &job{key: "ann", attempt: 1}, &job{key: "ann", attempt: 1}
	require.True(t, d.add(before))
	require.Empty(t, d.clear(false), "it runs")
	require.True(t, d.add(after))
	require.False(t, d.done(before, failed, true, time.Hour))
	require.Equal(t, []*job{before, after}, started)
	require.True(t, d.done(after, failed, true, time.Hour))
	require.Equal(t, []*job{after}, d.clear(true))
	require.False(t, d.add(before))
}

func TestNothingStartsAfterAMessageWasLostUntilTheSchedulerIsCleared(t *testing.T) {
	t.Parallel()
	d := newScheduler(1, 0, nil)
	var started []*job
	d.start = func(j *job) { started = append(started, j) }
	lost, later, next := &job{key: "ann"}, &job{key: "ann"}, &job{key: "ann"}
	require.True(t, d.add(lost))
	require.True(t, d.add(later))
	require.False(t, isClosed(d.haltSignal()))
	d.halt()
	d.done(lost, interrupted, false, 0)
	require.True(t, isClosed(d.haltSignal()), "the ownership is to end")
	require.Equal(t, []*job{lost}, started)
	require.Equal(t, []*job{later}, d.clear(false))
	require.False(t, isClosed(d.haltSignal()))
	require.True(t, d.add(next))
	require.Equal(t, []*job{lost, next}, started)
}

func TestASinkThatStrugglesGetsOneDeliveryAtATimeAndThenMore(t *testing.T) {
	t.Parallel()
	w := newWindow(16)
	for range 15 {
		require.Zero(t, w.strained(), "a few failures say nothing")
		require.Equal(t, 16, w.limit)
	}
	var pauses []time.Duration
	for range 6 {
		pauses = append(pauses, w.strained())
		require.Equal(t, 1, w.limit)
	}
	require.Equal(t, []time.Duration{
		100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, time.Second, time.Second,
	}, pauses)

	for _, want := range []int{2, 4, 8, 16, 16} { // one round of as many deliveries as the window lets
		for range w.limit {
			w.answered()
		}
		require.Equal(t, want, w.limit)
	}
	require.Zero(t, w.strained(), "the count begins again")
}

func TestARateSpreadsDeliveries(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	r := newRate(100)
	for range 11 { // a tenth of a second's worth, and the one that is due
		require.Zero(t, r.reserve(now))
	}
	require.Equal(t, 10*time.Millisecond, r.reserve(now))
	require.Equal(t, 10*time.Millisecond, r.reserve(now), "asking does not count")
	require.Zero(t, r.reserve(now.Add(10*time.Millisecond)))
	require.Positive(t, r.reserve(now.Add(10*time.Millisecond)))

	unlimited := newRate(0)
	for range 1000 {
		require.Zero(t, unlimited.reserve(now))
	}
}

// cutOff is a message whose broker is unreachable while it is true.
type cutOff struct {
	Message
	atomic.Bool
}

// Extend implements Message.
func (c *cutOff) Extend(context.Context) error {
	if c.Load() {
		return errors.New("not connected")
	}
	return nil
}

func TestAMessageThatCannotBeExtendedLapses(t *testing.T) {
	t.Parallel()
	f := newInFlight(5*time.Millisecond, func(error) {})
	defer f.stop()
	msg := &cutOff{}
	msg.Store(true)
	f.add(msg)
	require.Eventually(t, func() bool { return f.lapsed(msg) }, time.Minute, time.Millisecond)
	msg.Store(false)
	require.Eventually(t, func() bool { return !f.lapsed(msg) }, time.Minute, time.Millisecond, "it was extended again")
	f.remove(msg)
	require.False(t, f.lapsed(msg))
}
