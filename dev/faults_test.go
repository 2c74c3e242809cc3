package dev

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

func TestFaultsAreNamedOncePerKind(t *testing.T) {
	t.Parallel()
	dead := journal.Record{Type: "order.received", ID: "1", Source: "shop", Sink: "orders/pricing", Reason: "SinkRejected", Message: "no"}
	unwanted := journal.Record{Type: "order.other", ID: "2\x1b[31m", Source: "shop"}
	for name, tc := range map[string]struct {
		report   report
		unloaded []string
		missing  string
		want     string
	}{
		"none":              {report: report{events: 3}, want: "run ok: events=3 lost=0 wake_to_first_byte_p50_ms=0\n"},
		"what is missing":   {missing: "2 events wait", want: "run failed: 2 events wait\n"},
		"a Function":        {unloaded: []string{"a/b: no"}, missing: "2 events wait", want: "run failed: 1 Function did not load: a/b: no\n"},
		"several Functions": {unloaded: []string{"a/b: no", "a/c: no"}, want: "run failed: 2 Functions did not load, the first: a/b: no\n"},
		"a dead letter and an event without a Subscription": {
			report: report{dead: []journal.Record{dead}, unwanted: []journal.Record{unwanted, unwanted}},
			want: "run failed: 1 event became a dead letter: order.received 1 from shop at orders/pricing: no; " +
				"2 events were wanted by no Subscription, the first: order.other 2 [31m from shop\n",
		},
	} {
		var out strings.Builder
		err := tc.report.conclude(&out, tc.report.faults(tc.unloaded, tc.missing))
		require.Equal(t, tc.want, out.String(), name)
		require.Equal(t, strings.HasPrefix(tc.want, "run failed"), err != nil, name)
	}
}

func TestAFunctionThatMayLoadYetIsGivenAnotherTry(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status runner.Status
		last   bool
		want   int
	}{
		"one that runs":                       {runner.Status{}, true, 0},
		"one with nothing to start":           {runner.Status{Unprepared: true}, false, 1},
		"one that failed once":                {runner.Status{FailedStarts: 1}, false, 0},
		"one that failed again":               {runner.Status{FailedStarts: 2}, false, 1},
		"one that failed and time is over":    {runner.Status{FailedStarts: 1}, true, 1},
		"one that crashed after it was ready": {runner.Status{Restarts: 3, LastError: "no"}, true, 0},
	} {
		require.Len(t, unloaded([]runner.Status{tc.status}, tc.last), tc.want, name)
	}
}
