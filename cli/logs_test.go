package cli

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLogsOfSeveralFunctionsAreMergedByTime(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	now := time.Now()
	w.print("pricing", "pricing-1", "first", now.Add(-2*time.Second))
	w.print("broken", "broken-1", "second", now.Add(-time.Second))
	w.print("pricing", "pricing-2", "third", now)
	at := func(before time.Duration) string { return now.Add(-before).Local().Format(clock) }
	want := at(2*time.Second) + " pricing pricing-1 first\n" + at(time.Second) + " broken broken-1 second\n" + at(0) + " pricing pricing-2 third\n"
	for _, args := range [][]string{{"logs"}, {"logs", "-n", "orders"}, {"logs", "orders/broken", "pricing"}} {
		got := w.run(t, args...)
		require.Equal(t, 0, got.code, got.err)
		require.Equal(t, want, got.out, args)
	}
	require.Empty(t, w.run(t, "logs", "-n", "nowhere").out)

	l := w.live(t, "logs", "-f")
	require.Contains(t, l.next(t, "first"), "pricing pricing-1")
	w.print("broken", "broken-2", "fourth", now.Add(time.Second))
	require.Contains(t, l.next(t, "fourth"), "broken broken-2")
	require.Equal(t, 0, l.stop().code)
}
