package dispatch

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestACallIsDetachedAfterAQuarterOfItsTimeout(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		options     Options
		maxInFlight int
		want        time.Duration
	}{
		"a quarter":                          {Options{Timeout: 190 * time.Second}, 10, 47500 * time.Millisecond},
		"a second at least":                  {Options{Timeout: 2 * time.Second}, 10, time.Second},
		"none that ends before":              {Options{Timeout: time.Second}, 10, 0},
		"none without a timeout":             {Options{}, 10, 0},
		"none of those that come one by one": {Options{Timeout: time.Minute}, 1, 0},
		"none of those in order":             {Options{Timeout: time.Minute, OrderedBy: "customer"}, 10, 0},
		"none of dead letters":               {Options{Timeout: time.Minute, Endless: true}, 10, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, detachAfter(tc.options, tc.maxInFlight))
		})
	}
}

func TestADetachedCallFreesItsSlotInTheScheduler(t *testing.T) {
	t.Parallel()
	d := newScheduler(1, 0, nil)
	var started []*job
	d.start = func(j *job) { started = append(started, j) }
	hanging, next, last := &job{}, &job{}, &job{}
	for _, j := range []*job{hanging, next, last} {
		require.True(t, d.add(j))
	}
	d.detach(hanging)
	require.Equal(t, []*job{hanging, next}, started)
	require.Equal(t, 1, hanging.limit)
	d.done(hanging, delivered, false, 0)
	require.Equal(t, []*job{hanging, next}, started, "it had no slot to free any more")
	d.done(next, delivered, false, 0)
	require.Equal(t, []*job{hanging, next, last}, started)
	require.Equal(t, 1, d.running)
}

func TestATimeoutOfADetachedCallDoesNotCountAgainstAnAnsweringSink(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string]bool{"that answers": true, "that does not": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const calls = 20
			d := newScheduler(calls, 0, nil)
			d.start = func(*job) {}
			jobs := make([]*job, calls)
			for i := range jobs {
				jobs[i] = &job{}
				d.add(jobs[i])
				d.detach(jobs[i])
			}
			if answers {
				other := &job{}
				d.add(other)
				d.done(other, delivered, false, 0)
			}
			for _, j := range jobs {
				d.done(j, strained, false, 0)
			}
			require.Equal(t, answers, d.window.limit == calls)
		})
	}
}
