package view

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/journal"
)

// hopLines writes each kept hop as "depth id subscription kind".
func hopLines(f *flow) string {
	var lines []string
	f.each(func(h *hop) bool {
		lines = append([]string{fmt.Sprintf("%d %s %s %s", h.event.depth, h.event.id, h.last.Subscription, h.last.Kind)}, lines...)
		return true
	})
	return strings.Join(lines, "\n")
}

func TestEventsStandBeneathWhatCausedThem(t *testing.T) {
	t.Parallel()
	stored := func(id, cause string) journal.Record {
		return journal.Record{Kind: journal.Stored, ID: id, Cause: cause}
	}
	to := func(id, subscription string, kind journal.Kind) journal.Record {
		return journal.Record{Kind: kind, ID: id, Subscription: subscription, Attempt: 1}
	}
	tests := map[string]struct {
		records []journal.Record
		want    []string
	}{
		"a delivery takes the line of the stored event": {
			records: []journal.Record{stored("a", ""), to("a", "x", journal.Delivered)},
			want:    []string{"0 a x delivered"},
		},
		"each Subscription has a line": {
			records: []journal.Record{stored("a", ""), to("a", "x", journal.Delivered), to("a", "y", journal.Retry)},
			want:    []string{"0 a x delivered", "0 a y retry"},
		},
		"attempts of one delivery share a line": {
			records: []journal.Record{stored("a", ""), to("a", "x", journal.Retry), to("a", "x", journal.Retry), to("a", "x", journal.Delivered)},
			want:    []string{"0 a x delivered"},
		},
		"chains that run at a time stay apart": {
			records: []journal.Record{stored("a", ""), stored("b", ""), stored("a1", "a"), stored("b1", "b"), stored("a2", "a1")},
			want:    []string{"0 a  stored", "1 a1  stored", "2 a2  stored", "0 b  stored", "1 b1  stored"},
		},
		"siblings stand in the order in which they came": {
			records: []journal.Record{stored("a", ""), stored("a1", "a"), stored("a1x", "a1"), stored("a2", "a")},
			want:    []string{"0 a  stored", "1 a1  stored", "2 a1x  stored", "1 a2  stored"},
		},
		"a second Subscription of the cause comes before what the first one caused": {
			records: []journal.Record{stored("a", ""), stored("a1", "a"), to("a", "x", journal.Delivered), to("a", "y", journal.Delivered)},
			want:    []string{"0 a x delivered", "0 a y delivered", "1 a1  stored"},
		},
		"an event without a known cause begins a chain": {
			records: []journal.Record{stored("b", "a")},
			want:    []string{"0 b  stored"},
		},
		"an event that is published again does not hide its delivery": {
			records: []journal.Record{stored("a", ""), to("a", "x", journal.Delivered), stored("a", "")},
			want:    []string{"0 a x delivered"},
		},
		"a dead letter on its way to its own sink is another hop": {
			records: []journal.Record{
				stored("a", ""), to("a", "x", journal.DeadLettered),
				{Kind: journal.Delivered, ID: "a", Subscription: "x", DeadLetter: true},
			},
			want: []string{"0 a x deadlettered", "0 a x delivered"},
		},
		"an event that causes itself is not lost": {
			records: []journal.Record{stored("a", "a"), stored("a", "a")},
			want:    []string{"0 a  stored"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFlow()
			for _, r := range tc.records {
				f.add(r)
			}
			require.Equal(t, strings.Join(tc.want, "\n"), hopLines(f))
		})
	}
}

func TestTheOldestChainsAreForgotten(t *testing.T) {
	t.Parallel()
	f := newFlow()
	for i := range mostHops {
		f.add(journal.Record{Kind: journal.Stored, ID: strconv.Itoa(i)})
		f.add(journal.Record{Kind: journal.Stored, ID: strconv.Itoa(i) + ".child", Cause: strconv.Itoa(i)})
	}
	require.LessOrEqual(t, f.hops, mostHops)
	require.Len(t, f.events, f.hops)
	require.NotContains(t, f.events, eventKey{id: "0"})
	require.Contains(t, f.events, eventKey{id: strconv.Itoa(mostHops-1) + ".child"})
}

func TestOneEndlessChainIsBoundedToo(t *testing.T) {
	t.Parallel()
	f := newFlow()
	for i := range 2 * mostHops {
		f.add(journal.Record{Kind: journal.Stored, ID: strconv.Itoa(i), Cause: strconv.Itoa(i - 1)})
	}
	require.LessOrEqual(t, f.hops, mostHops)
	require.Len(t, f.chains, 1)
	require.Len(t, f.events, f.hops)
}
