package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/dev/process"
)

func (w *fixture) print(name, replica, text string, at time.Time) {
	w.feed.Add(process.Line{Time: at, Namespace: "orders", Function: name, Replica: replica, Stream: "stdout", Text: text})
}

func TestLogsShowTheLinesOfOneFunction(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	now := time.Now()
	w.print("pricing", "pricing-1", "first", now.Add(-time.Hour))
	w.print("pricing", "pricing-2", "second", now)
	w.print("broken", "broken-1", "other", now)

	got := w.run(t, "logs", "pricing")
	require.Equal(t, 0, got.code, got.err)
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	require.Len(t, lines, 2)
	require.Equal(t, now.Add(-time.Hour).Local().Format(clock)+" pricing-1 first", lines[0])
	require.True(t, strings.HasSuffix(lines[1], " pricing-2 second"))

	require.NotContains(t, w.run(t, "logs", "pricing", "--tail", "1").out, "first")
	require.NotContains(t, w.run(t, "logs", "pricing", "--since", "10m").out, "first")
	require.Contains(t, w.run(t, "logs", "pricing", "-o", "json").out, `"replica":"pricing-2","stream":"stdout","text":"second"}`)

	got = w.run(t, "logs", "nobody")
	require.Equal(t, 3, got.code)
	require.Contains(t, got.err, "there is no Function nobody")
}

func TestFollowingLogsGoesOnUntilItIsStopped(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	w.print("pricing", "pricing-1", "before", time.Now())
	l := w.live(t, "logs", "-f", "orders/pricing")
	l.next(t, "before")
	w.print("broken", "broken-1", "of another", time.Now())
	w.print("pricing", "pricing-2", "after", time.Now())
	require.Contains(t, l.next(t, ""), "pricing-2 after")
	require.Equal(t, ran{}, l.stop())
}

func TestFunctionsAreListed(t *testing.T) {
	t.Parallel()
	w := newFixture(t, accept)
	got := w.run(t, "functions")
	require.Equal(t, 0, got.code, got.err)
	want := "NAMESPACE   NAME      STATE     READY   BACKLOG   RUNTIME     URL                      LAST ERROR\n" +
		"orders      broken    failing   0/0     -         python312                            handler.py:3: no\n" +
		"orders      pricing   ready     1/1     3         nodejs22    http://127.0.0.1:00000\n"
	require.Equal(t, want, strings.ReplaceAll(got.out, portOf(w.pricing.Address()), "00000"))
	require.Equal(t, "orders/broken\norders/pricing\n", w.run(t, "functions", "-o", "name").out)
	require.Equal(t, "[]\n", w.run(t, "functions", "-n", "nowhere", "-o", "json").out)
	require.Contains(t, w.run(t, "functions", "-o", "yaml").out, "- backlog: 3\n")
	require.Contains(t, w.run(t, "functions", "-n", "nowhere").err, "there are no Functions in nowhere")
}

func portOf(address string) string {
	_, port, _ := strings.Cut(address, ":")
	return port + strings.Repeat(" ", 0)
}
