//go:build e2e

package nodes

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/e2e/framework"
)

// settleEvents waits until each event of a Function has come to rest, and counts them.
func (l *load) settleEvents(t *testing.T, function string) {
	t.Helper()
	keys := l.keys[function]
	entries, err := l.cluster.AwaitLedger(t.Context(), l.namespace, keys, 5*time.Minute)
	if err != nil {
		t.Logf("not all of %s arrived: %v", function, err)
	}
	var balance framework.Balance
	require.NoError(t, framework.Await(t.Context(), 2*time.Minute, "the backlog of "+function+" to be settled", func(ctx context.Context) (bool, error) {
		balance, err = l.cluster.Balance(ctx, l.namespace, function)
		return balance.Pending == 0, err
	}))
	acked, repeated := 0, 0
	for _, key := range keys {
		if entry, ok := entries[key]; ok {
			acked++
			repeated += entry.Count - 1
		}
	}
	lost := len(keys) - acked - int(balance.DeadLetters)
	t.Logf("events for %s: published=%d acked=%d deadlettered=%d lost=%d repeated=%d longest_pause=%s",
		function, len(keys), acked, balance.DeadLetters, lost, repeated, longestPause(entries, keys).Round(100*time.Millisecond))
	count("published", len(keys))
	count("acked", acked)
	count("deadlettered", int(balance.DeadLetters))
	count("lost", lost)
	require.Zero(t, lost)
}

// longestPause is the longest time without any event that was handled.
func longestPause(entries map[string]framework.Entry, keys []string) time.Duration {
	var times []float64
	for _, key := range keys {
		if entry, ok := entries[key]; ok {
			times = append(times, entry.At)
		}
	}
	return gap(times)
}

func (l *load) settleWakes(t *testing.T, from time.Time) {
	t.Helper()
	failed, slowest := 0, time.Duration(0)
	for _, one := range l.called {
		if one.failed != "" {
			failed++
			t.Logf("a request that wakes, begun %s after the node went, failed after %s: %s",
				one.at.Sub(from).Round(time.Second), one.took.Round(time.Second), one.failed)
		} else {
			slowest = max(slowest, one.took)
		}
	}
	t.Logf("requests that wake: requests=%d failed_requests=%d slowest=%s", len(l.called), failed, slowest.Round(time.Millisecond))
	count("requests", len(l.called))
	count("failed_requests", failed)
	require.Empty(t, l.called[len(l.called)-1].failed, "the last request, long after")
}

// settleSteady ends the steady requests, and asks once more what has to be whole again.
func (l *load) settleSteady(t *testing.T) {
	t.Helper()
	steady, err := l.caller.Pause(t.Context())
	require.NoError(t, err)
	t.Logf("requests to three pods: requests=%d failed_requests=%d", steady.Asked, steady.Failed)
	for _, failure := range steady.Failures {
		t.Log(failure)
	}
	count("requests", steady.Asked)
	count("failed_requests", steady.Failed)
	answers, err := l.caller.Do(t.Context(), framework.Call{URL: "http://steady/", Method: "POST", Body: "after"})
	require.NoError(t, err)
	require.Equal(t, "after", answers[0].Text, "%+v", answers[0])
}
