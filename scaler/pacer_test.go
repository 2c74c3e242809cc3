package scaler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPacerDecidesWhenTrueIsSent(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	sentAt := func(seconds int, edge uint64) pacer { return pacer{last: at(seconds), edge: edge} }
	first := edge{number: 1, at: at(0)}
	second := edge{number: 2, at: at(20)}

	tests := map[string]struct {
		pacer pacer
		view  view
		now   int

		wantDue  bool
		wantWait time.Duration
		wantOwed bool
	}{
		"nothing is sent while idle": {
			view: view{}, now: 5,
		},
		"true is sent at once when active": {
			view: view{active: true, restless: at(0), edge: first}, now: 0, wantDue: true,
		},
		"true is sent at open when active, also with an endpoint": {
			view: view{active: true, ready: true, restless: at(0), edge: first}, now: 50, wantDue: true,
		},
		"true is repeated each second until there is an endpoint": {
			pacer: sentAt(3, 1), view: view{active: true, restless: at(0), edge: first}, now: 3,
			wantWait: time.Second,
		},
		"the repetition is due after that second": {
			pacer: sentAt(3, 1), view: view{active: true, restless: at(0), edge: first}, now: 4, wantDue: true,
		},
		"a function that does not start is repeated at the pace of the heartbeat": {
			pacer: sentAt(60, 1), view: view{active: true, restless: at(0), edge: first}, now: 61,
			wantWait: 11 * time.Second,
		},
		"with an endpoint only the heartbeat goes on": {
			pacer: sentAt(3, 1), view: view{active: true, ready: true, restless: at(0), edge: first}, now: 4,
			wantWait: 11 * time.Second,
		},
		"the heartbeat is due": {
			pacer: sentAt(3, 1), view: view{active: true, ready: true, restless: at(0), edge: first}, now: 15, wantDue: true,
		},
		"losing the endpoint while active sends true at once": {
			pacer: sentAt(3, 1), view: view{active: true, restless: at(4), edge: first}, now: 4, wantDue: true,
		},
		"a new edge at zero sends true at once": {
			pacer: sentAt(19, 1), view: view{active: true, restless: at(20), edge: second}, now: 20, wantDue: true,
		},
		"a new edge of a function that is awake waits for the heartbeat": {
			pacer: sentAt(19, 1), view: view{active: true, ready: true, restless: at(20), edge: second}, now: 20,
			wantWait: 11 * time.Second, wantOwed: true,
		},
		"a held back edge is sent although the backlog is gone, as the cooldown counts from it": {
			pacer: pacer{last: at(19), edge: 1, owed: true}, view: view{ready: true, restless: at(20), edge: second}, now: 31,
			wantDue: true, wantOwed: true,
		},
		"a held back edge is not sent once the function sleeps": {
			pacer: pacer{last: at(19), edge: 1, owed: true}, view: view{restless: at(25), edge: second}, now: 31,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := tc.pacer
			p.options = DefaultOptions().Push
			due, wait := p.next(at(tc.now), tc.view)
			require.Equal(t, tc.wantDue, due)
			require.Equal(t, tc.wantWait, wait)
			require.Equal(t, tc.wantOwed, p.owed)
			p.sent(at(tc.now), tc.view)
			require.False(t, p.owed)
		})
	}
}
