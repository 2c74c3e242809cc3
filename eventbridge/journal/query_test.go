package journal_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/journal"
)

// Only the latest blocks are read for the last records, and those that are old as a whole are left out.
func TestTheLastRecordsAreThoseOfAllThatMatch(t *testing.T) {
	t.Parallel()
	const capacity, added = 3000, 5000
	j, all := journal.New(capacity), []journal.Record{}
	for i := range added {
		r := journal.Record{
			Time: noon.Add(time.Duration(i-i%7) * time.Second), // bridges are copied side by side, so times are not in order
			Kind: journal.Stored, ID: strconv.Itoa(i), Namespace: "team-" + strconv.Itoa(i*i%11), Type: "common",
		}
		if i%997 == 0 {
			r.Type = "rare"
		}
		j.Add(r)
	}
	j.Each(journal.Query{}, func(r journal.Record) bool {
		all = append(all, r)
		return true
	})
	require.Len(t, all, capacity)
	queries := []journal.Query{
		{},
		{Type: "rare"},
		{Type: "absent"},
		{Namespace: "team-3"},
		{Namespace: "team-4", Type: "rare"},
		{Since: noon.Add(4000 * time.Second)},
		{Since: noon.Add(added * time.Second)},
		{Since: noon.Add(4990 * time.Second), Namespace: "team-0"},
	}
	for _, limit := range []int{0, 1, 2, 3, 129, 1000, 2999, 3000, 9000} {
		for _, q := range queries {
			want := []string{}
			for _, r := range all {
				if q.Matches(r) {
					want = append(want, r.ID)
				}
			}
			if limit > 0 {
				want = want[max(0, len(want)-limit):]
			}
			q.Limit = limit
			require.Equal(t, want, ids(j.Recent(q)), "%+v", q)
		}
	}
}
