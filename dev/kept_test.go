package dev

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/admin"
)

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
