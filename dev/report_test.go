package dev

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/dev/process"
	"github.com/rouse-run/rouse/dev/runner"
	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/routing"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }

func routeOf(t *testing.T, name string) routing.Route {
	t.Helper()
	route, err := routing.FromSubscription(&eventingv1alpha2.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: "orders", Name: name},
		Spec: eventingv1alpha2.SubscriptionSpec{
			Source: "shop", Types: []string{"order.received"}, Sink: "http://" + name + ".orders.svc.cluster.local",
		},
	}, routing.Policy{})
	require.NoError(t, err)
	return route
}

func storedAt(id string, ms int) journal.Record {
	return journal.Record{Kind: journal.Stored, Source: "shop", Type: "order.received", ID: id, Time: at(ms)}
}

func endedAt(kind journal.Kind, id, name string, stored, began, ended int) journal.Record {
	return journal.Record{
		Kind: kind, Source: "shop", Type: "order.received", ID: id, Namespace: "orders", Subscription: name,
		Sink: "orders/" + name, Stored: at(stored), Began: at(began), Time: at(ended),
	}
}

func spokeAt(name, stream string, ms int) process.Line {
	return process.Line{Namespace: "orders", Function: name, Stream: stream, Time: at(ms), Text: "x"}
}

func TestEveryStoredEventHasToEndAtEachSubscription(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		records      []journal.Record
		events, lost int
		hops         int
		dead         int
		unwanted     int
	}{
		"no records": {},
		"all delivered": {records: []journal.Record{
			storedAt("1", 0), endedAt(journal.Delivered, "1", "a", 0, 1, 2), endedAt(journal.Delivered, "1", "b", 0, 1, 2),
		}, events: 1, hops: 2},
		"a delivery is missing": {records: []journal.Record{storedAt("1", 0), endedAt(journal.Delivered, "1", "a", 0, 1, 2)}, events: 1, lost: 1, hops: 1},
		"a retry is not an end": {records: []journal.Record{storedAt("1", 0), endedAt(journal.Retry, "1", "a", 0, 1, 2)}, events: 1, lost: 2},
		"a dead letter is an end": {records: []journal.Record{
			storedAt("1", 0), endedAt(journal.DeadLettered, "1", "a", 0, 1, 2), endedAt(journal.Delivered, "1", "b", 0, 1, 2),
		}, events: 1, hops: 2, dead: 1},
		"a filtered delivery is an end": {records: []journal.Record{
			storedAt("1", 0), endedAt(journal.Filtered, "1", "a", 0, 1, 2), endedAt(journal.Delivered, "1", "b", 0, 1, 2),
		}, events: 1, hops: 1},
		"filtered by all matches no Subscription": {records: []journal.Record{
			storedAt("1", 0), endedAt(journal.Filtered, "1", "a", 0, 1, 2), endedAt(journal.Filtered, "1", "b", 0, 1, 2),
		}, events: 1, unwanted: 1},
		"a duplicate counts once": {records: []journal.Record{storedAt("1", 0), storedAt("1", 5)}, events: 1, lost: 2},
		"no Subscription matches": {records: []journal.Record{{Kind: journal.Stored, Source: "shop", Type: "order.other", ID: "1"}}, events: 1, unwanted: 1},
		"of an event from before": {records: []journal.Record{endedAt(journal.Delivered, "0", "a", 0, 1, 2)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := reportOf(tc.records, nil, []routing.Route{routeOf(t, "a"), routeOf(t, "b")}, nil)
			require.Equal(t, tc.events, r.events)
			require.Equal(t, tc.lost, r.lost)
			require.Len(t, r.hops, tc.hops)
			require.Len(t, r.dead, tc.dead)
			require.Len(t, r.unwanted, tc.unwanted)
		})
	}
}

func TestTheFirstByteIsTheHandlersFirstLine(t *testing.T) {
	t.Parallel()
	lines := []process.Line{
		spokeAt("a", process.Stdout, 90),  // while it started
		spokeAt("a", process.Rouse, 101),  // not its own
		spokeAt("b", process.Stdout, 102), // another's
		spokeAt("a", process.Stderr, 104),
		spokeAt("a", process.Stdout, 105),
	}
	r := reportOf([]journal.Record{
		storedAt("1", 0), endedAt(journal.Delivered, "1", "a", 2, 100, 110),
		storedAt("2", 200), endedAt(journal.DeadLettered, "2", "a", 200, 203, 210),
	}, lines, []routing.Route{routeOf(t, "a")}, map[string]bool{"orders/a": true})
	require.Len(t, r.hops, 2)
	require.Equal(t, 102*time.Millisecond, r.hops[0].first)
	require.Equal(t, 108*time.Millisecond, r.hops[0].settled)
	require.True(t, r.hops[0].woke)
	require.Equal(t, 3*time.Millisecond, r.hops[1].first, "without output it is the start of the delivery")
	require.False(t, r.hops[1].woke)
	require.Equal(t, 102*time.Millisecond, r.wake)

	var out strings.Builder
	require.NoError(t, r.print(&out))
	require.NoError(t, r.conclude(&out, nil))
	text := out.String()
	require.Contains(t, text, "102 ms")
	require.Contains(t, text, "dead letter")
	require.True(t, strings.HasSuffix(text, "run ok: events=2 lost=0 wake_to_first_byte_p50_ms=102\n"), text)
}

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
		"missing events":    {missing: "2 events wait", want: "run failed: 2 events wait\n"},
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

func TestFunctionThatFailedOnceIsRetried(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status runner.Status
		last   bool
		want   int
	}{
		"a running Function":                         {runner.Status{}, true, 0},
		"a Function that cannot be prepared":         {runner.Status{Unprepared: true}, false, 1},
		"a Function that failed once":                {runner.Status{FailedStarts: 1}, false, 0},
		"a Function that failed twice":               {runner.Status{FailedStarts: 2}, false, 1},
		"a Function that failed at the timeout":      {runner.Status{FailedStarts: 1}, true, 1},
		"a Function that crashed after it was ready": {runner.Status{Restarts: 3, LastError: "no"}, true, 0},
	} {
		require.Len(t, unloaded([]runner.Status{tc.status}, tc.last), tc.want, name)
	}
}

func TestStopReportsPendingEventsAndDeadLetters(t *testing.T) {
	t.Parallel()
	const folder = "/state/orders-1"
	const after = "; the next rouse dev of this folder goes on with that, --fresh throws it away"
	sub := func(name string, pending, inFlight, retries, deadLetters uint64) admin.Subscription {
		return admin.Subscription{
			Namespace: "orders", Name: name, Consumer: true, Backlog: pending, AckPending: inFlight, WaitingRetries: retries, DeadLetters: deadLetters,
		}
	}
	gone := admin.Subscription{Namespace: "orders", Name: "gone", WaitingRetries: 1, DeadLetters: 1}
	for name, tc := range map[string]struct {
		all  []admin.Subscription
		want string
	}{
		"nothing":             {[]admin.Subscription{sub("a", 0, 0, 0, 0)}, "stopped; nothing is pending"},
		"one event":           {[]admin.Subscription{sub("a", 1, 0, 0, 0)}, "stopped; kept in " + folder + ": 1 event is pending (1 for orders/a)" + after},
		"all that is pending": {[]admin.Subscription{sub("a", 1, 2, 3, 0), sub("b", 7, 0, 0, 0)}, "stopped; kept in " + folder + ": 13 events are pending (7 for orders/b, 6 for orders/a)" + after},
		"dead letters alone":  {[]admin.Subscription{sub("a", 0, 0, 0, 2), gone}, "stopped; kept in " + folder + ": 3 dead letters" + after},
		"both":                {[]admin.Subscription{sub("a", 1, 0, 0, 1)}, "stopped; kept in " + folder + ": 1 event is pending (1 for orders/a), 1 dead letter" + after},
		"many Subscriptions": {
			[]admin.Subscription{sub("a", 1, 0, 0, 0), sub("b", 1, 0, 0, 0), sub("c", 1, 0, 0, 0), sub("d", 1, 0, 0, 0), sub("e", 1, 0, 0, 0)},
			"stopped; kept in " + folder + ": 5 events are pending (1 for orders/a, 1 for orders/b, 1 for orders/c, the rest for 2 others)" + after,
		},
	} {
		require.Equal(t, tc.want, keptOf(tc.all, folder), name)
	}
}
