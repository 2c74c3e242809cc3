package scaler

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestActivityFollowsPublishesAndReadings(t *testing.T) {
	t.Parallel()
	const (
		maxAge = 15 * time.Second
		grace  = 2 * time.Second
	)
	start := time.Unix(1000, 0)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	publish := func(s float64) func(*activity) { return func(a *activity) { a.published(at(s)) } }
	read := func(s float64, n uint64) func(*activity) { return func(a *activity) { a.read(at(s), n, grace) } }
	fail := func(a *activity) { a.failed(errors.New("no responders")) }

	tests := map[string]struct {
		threshold    float64
		steps        []func(*activity)
		asked        float64
		disconnected bool

		wantBacklog uint64
		wantError   string
		wantEdges   uint64
		wantCause   cause
	}{
		"nothing is known before the first reading": {
			wantError: "not read yet",
		},
		"a failed first reading gives its reason": {
			steps:     []func(*activity){fail},
			wantError: "no responders",
		},
		"a backlog of 0 is an answer": {
			steps: []func(*activity){read(1, 0)}, asked: 2,
		},
		"a backlog found by reading turns the function active": {
			steps: []func(*activity){read(1, 0), read(2, 7)}, asked: 3,
			wantBacklog: 7, wantEdges: 1, wantCause: causePoll,
		},
		"a publish counts as a backlog of one at once": {
			steps: []func(*activity){read(1, 0), publish(1.5)}, asked: 1.5,
			wantBacklog: 1, wantEdges: 1, wantCause: causePublish,
		},
		"a publish before the first reading counts as well": {
			steps: []func(*activity){publish(1)}, asked: 1,
			wantBacklog: 1, wantEdges: 1, wantCause: causePublish,
		},
		"a reading of 0 right after a publish is not believed": {
			steps: []func(*activity){read(1, 0), publish(1.5), read(1.6, 0)}, asked: 1.7,
			wantBacklog: 1, wantEdges: 1, wantCause: causePublish,
		},
		"a reading of 0 that began before the publish is not believed either": {
			steps: []func(*activity){read(0, 0), publish(1.5), read(1.4, 0)}, asked: 1.7,
			wantBacklog: 1, wantEdges: 1, wantCause: causePublish,
		},
		"a reading of 0 after the grace ends provisional activity": {
			steps: []func(*activity){read(1, 0), publish(1.5), read(3.5, 0)}, asked: 4,
			wantEdges: 1, wantCause: causePublish,
		},
		"a reading confirms provisional activity without a second edge": {
			steps: []func(*activity){read(1, 0), publish(1.5), read(1.6, 1000)}, asked: 2,
			wantBacklog: 1000, wantEdges: 1, wantCause: causePublish,
		},
		"a confirmed backlog that falls to 0 is believed at once": {
			steps: []func(*activity){read(1, 0), publish(1.5), read(1.6, 3), read(1.8, 0)}, asked: 2,
			wantEdges: 1, wantCause: causePublish,
		},
		"each change to active is an edge": {
			steps: []func(*activity){read(1, 1), read(2, 0), read(3, 1), publish(4)}, asked: 4,
			wantBacklog: 1, wantEdges: 2, wantCause: causePoll,
		},
		"idle is not repeated after a failed reading": {
			steps: []func(*activity){read(1, 0), fail}, asked: 1.1,
			wantError: "no responders",
		},
		"idle is not repeated while NATS cannot be reached": {
			steps: []func(*activity){read(1, 0)}, asked: 1.1, disconnected: true,
			wantError: "not connected",
		},
		"active is repeated after a failed reading": {
			steps: []func(*activity){read(1, 5), fail}, asked: 10, disconnected: true,
			wantBacklog: 5, wantEdges: 1, wantCause: causePoll,
		},
		"active is not repeated for ever": {
			steps: []func(*activity){read(1, 5), fail}, asked: 16.5,
			wantError: "last read 16s ago", wantEdges: 1, wantCause: causePoll,
		},
		"idle is not repeated for ever": {
			steps: []func(*activity){read(1, 0)}, asked: 20,
			wantError: "last read 19s ago",
		},
		"a success makes up for a failure": {
			steps: []func(*activity){read(1, 0), fail, read(2, 0)}, asked: 2,
		},
		"a backlog at the threshold is idle": {
			threshold: 5, steps: []func(*activity){read(1, 5)}, asked: 1,
			wantBacklog: 5,
		},
		"a backlog above the threshold is active": {
			threshold: 5, steps: []func(*activity){read(1, 6)}, asked: 1,
			wantBacklog: 6, wantEdges: 1, wantCause: causePoll,
		},
		"one publish is not enough when the threshold is higher": {
			threshold: 5, steps: []func(*activity){read(1, 0), publish(2)}, asked: 2,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := activity{threshold: tc.threshold}
			for _, step := range tc.steps {
				step(&a)
			}
			backlog, err := a.answer(at(tc.asked), maxAge, !tc.disconnected)
			if tc.wantError != "" {
				require.ErrorIs(t, err, errUnknown)
				require.ErrorContains(t, err, tc.wantError)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, tc.wantBacklog, backlog)
			require.Equal(t, tc.wantEdges, a.edge.number)
			require.Equal(t, tc.wantCause, a.edge.cause)
		})
	}
}
