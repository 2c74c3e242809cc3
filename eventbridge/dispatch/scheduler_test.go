package dispatch

import (
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
