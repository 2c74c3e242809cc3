package journal_test

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/journal"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// filled has records 0 to n-1 as ids, a second apart.
func filled(capacity, n int) *journal.Journal {
	j := journal.New(capacity)
	for i := range n {
		j.Add(journal.Record{ID: strconv.Itoa(i), Kind: journal.Stored, Time: noon.Add(time.Duration(i) * time.Second)})
	}
	return j
}

func ids(records []journal.Record) []string {
	all := make([]string, 0, len(records))
	for _, r := range records {
		all = append(all, r.ID)
	}
	return all
}

func TestRecent(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		capacity, added int
		query           journal.Query
		want            []string
	}{
		"is empty at first":                    {capacity: 3, want: []string{}},
		"has all up to its capacity":           {capacity: 3, added: 2, want: []string{"0", "1"}},
		"has the last when the ring turned":    {capacity: 3, added: 8, want: []string{"5", "6", "7"}},
		"is limited to the last":               {capacity: 10, added: 8, query: journal.Query{Limit: 2}, want: []string{"6", "7"}},
		"begins at a time, that one included":  {capacity: 10, added: 8, query: journal.Query{Since: noon.Add(6 * time.Second)}, want: []string{"6", "7"}},
		"finds nothing where nothing matches":  {capacity: 10, added: 8, query: journal.Query{ID: "9"}, want: []string{}},
		"reads more than one chunk in order":   {capacity: 1000, added: 1999, query: journal.Query{Limit: 1}, want: []string{"1998"}},
		"remembers nothing without a capacity": {capacity: 0, added: 8, want: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, ids(filled(tc.capacity, tc.added).Recent(tc.query)))
		})
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", journal.MaxText+1)
	record := journal.Record{
		Time: noon, Kind: journal.Retry, ID: "1", Source: "shop", Type: "order.received", Cause: "0", Trace: "abc",
		Namespace: "orders", Subscription: "pricing",
	}
	for name, tc := range map[string]struct {
		query journal.Query
		want  bool
	}{
		"nothing asked":            {journal.Query{}, true},
		"all that it is":           {journal.Query{ID: "1", Source: "shop", Type: "order.received", Cause: "0", Trace: "abc", Namespace: "orders", Subscription: "pricing"}, true},
		"another id":               {journal.Query{ID: "2"}, false},
		"another source":           {journal.Query{Source: "shops"}, false},
		"another trace":            {journal.Query{Trace: "abd"}, false},
		"another cause":            {journal.Query{Cause: "1"}, false},
		"another namespace":        {journal.Query{Namespace: "default"}, false},
		"another Subscription":     {journal.Query{Subscription: "invoicing"}, false},
		"the beginning of a type":  {journal.Query{Type: "order.*"}, true},
		"every type":               {journal.Query{Type: "*"}, true},
		"another beginning":        {journal.Query{Type: "orders.*"}, false},
		"a beginning without star": {journal.Query{Type: "order."}, false},
		"one of some kinds":        {journal.Query{Kinds: []journal.Kind{journal.DeadLettered, journal.Retry}}, true},
		"another kind":             {journal.Query{Kinds: []journal.Kind{journal.Stored}}, false},
		"later":                    {journal.Query{Since: noon.Add(1)}, false},
		"a text that is cut":       {journal.Query{ID: long}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.query.Matches(record))
		})
	}
	require.True(t, journal.Query{ID: "2"}.Matches(journal.Record{Kind: journal.Skipped}), "what is missing may have been it")
}

func TestTextsAreCutAndFoundByWhatTheyWere(t *testing.T) {
	t.Parallel()
	j := journal.New(1)
	long := strings.Repeat("é", journal.MaxText)
	j.Add(journal.Record{ID: long, Source: "s"})
	found := j.Recent(journal.Query{ID: long})
	require.Len(t, found, 1)
	require.LessOrEqual(t, len(found[0].ID), journal.MaxText)
	require.True(t, strings.HasPrefix(long, found[0].ID))
	require.Equal(t, "s", found[0].Source)
}

func TestANamespaceThatFloodsTheJournalDisplacesNoRecordsOfOthers(t *testing.T) {
	t.Parallel()
	const capacity, quiet = 1000, 40
	j := journal.New(capacity)
	for i := range quiet {
		j.Add(journal.Record{ID: strconv.Itoa(i), Namespace: "shop"})
		j.Add(journal.Record{ID: strconv.Itoa(i), Namespace: "blog"})
	}
	for i := range 10 * capacity {
		j.Add(journal.Record{ID: "flood", Namespace: "hostile", Attempt: i})
	}
	require.Len(t, j.Recent(journal.Query{}), capacity)
	require.Len(t, j.Recent(journal.Query{Namespace: "shop"}), quiet)
	all := j.Recent(journal.Query{})
	require.Equal(t, []string{"0", "0", "1", "1"}, ids(all[:4]), "in the order in which they were added")
	require.Equal(t, 10*capacity-1, all[capacity-1].Attempt)
	require.Equal(t, []string{"38", "39"}, ids(j.Recent(journal.Query{Namespace: "shop", Limit: 2})))

	for i := range 10 * capacity {
		j.Add(journal.Record{ID: "flood", Namespace: "second", Attempt: i})
	}
	require.Len(t, j.Recent(journal.Query{Namespace: "blog"}), quiet)
	require.InDelta(t, len(j.Recent(journal.Query{Namespace: "hostile"})), len(j.Recent(journal.Query{Namespace: "second"})), 130,
		"two that flood it share what is left")
	require.Len(t, j.Recent(journal.Query{}), capacity)
}

func TestManyNamespacesShareTheJournalAndAreForgotten(t *testing.T) {
	t.Parallel()
	const capacity = 100
	j := journal.New(capacity)
	for i := range 10 * capacity {
		j.Add(journal.Record{ID: strconv.Itoa(i), Namespace: strconv.Itoa(i)})
	}
	require.Len(t, j.Recent(journal.Query{}), capacity)
}

func TestAFollowerOfAllGetsRecordsOfNamespacesThatCome(t *testing.T) {
	t.Parallel()
	j := journal.New(100)
	j.Add(journal.Record{ID: "old", Namespace: "shop"})
	followed := follow(t, j, journal.Query{})
	require.Equal(t, "old", (<-followed).ID)
	for i, namespace := range []string{"blog", "shop", "blog", "news"} {
		j.Add(journal.Record{ID: strconv.Itoa(i), Namespace: namespace})
		require.Equal(t, strconv.Itoa(i), (<-followed).ID)
	}
}

// A block's bytes and names are allocations for all its records.
func TestAddingAllocatesLessThanOnceARecord(t *testing.T) {
	j := filled(16, 16) // not parallel: it counts allocations
	r := journal.Record{Time: noon, Kind: journal.Delivered, ID: "1", Source: "shop", Type: "order.received", Trace: "abc"}
	require.Less(t, testing.AllocsPerRun(1000, func() { j.Add(r) }), 1.0)
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// delivered is a record as a chain of Functions makes them.
func delivered(i int) journal.Record {
	id := func(i int) string { return fmt.Sprintf("%08x-1111-4222-8333-%012x", i, i) }
	return journal.Record{
		Time: noon.Add(time.Duration(i) * time.Millisecond), Kind: journal.Delivered,
		ID: id(i), Cause: id(i - 1), Trace: fmt.Sprintf("%032x", i), Source: "shop", Type: "order.received.v1",
		Namespace: "orders", Subscription: "pricing", Sink: "orders/pricing", Attempt: 1, Status: 200,
		Stored: noon, Began: noon.Add(time.Duration(i) * time.Millisecond), Took: 1234 * time.Microsecond,
	}
}

func TestTheDefaultJournalOfChainsTakesAFewMebibytes(t *testing.T) {
	const records = 20_000
	before := heap() // not parallel: it counts bytes
	j := journal.New(records)
	for i := range 2*records + 1 {
		j.Add(delivered(i))
	}
	require.Less(t, heap()-before, uint64(4<<20), "140 bytes a record and what blocks have to spare")
	require.Len(t, j.Recent(journal.Query{}), records)
}

func TestARecordIsTheSameAfterTheRing(t *testing.T) {
	t.Parallel()
	due := noon.Add(time.Minute)
	all := []journal.Record{
		{Time: noon, Kind: journal.Stored, Namespace: "orders"},
		delivered(7),
		{
			Time: noon.Add(-time.Hour), Kind: journal.Retry, ID: "1", Namespace: "orders", DeadLetter: true, Stored: noon.Add(-24 * 365 * time.Hour),
			Attempt: 3, Status: 503, Reason: "SinkFailed", Message: "sink failed", Due: &due, Began: noon.Add(time.Nanosecond), Took: -1,
		},
		{Time: noon, Kind: journal.DeadLettered, Namespace: "orders", Source: "é", Trace: "t", Count: 1 << 40},
	}
	j := journal.New(len(all))
	for range 100 {
		for _, r := range all {
			j.Add(r)
		}
	}
	require.Equal(t, all, j.Recent(journal.Query{}))
}

// A slow reader of all records holds no copy of them.
func TestAReaderHoldsAFewRecordsAtATime(t *testing.T) {
	const records = 20_000
	j := journal.New(records) // not parallel: it counts bytes
	for i := range records {
		j.Add(delivered(i))
	}
	for _, limit := range []int{0, records - 1} {
		before, visited, most := heap(), 0, uint64(0)
		j.Each(journal.Query{Limit: limit}, func(journal.Record) bool {
			if visited++; visited%1000 == 0 {
				most = max(most, heap())
			}
			return true
		})
		require.GreaterOrEqual(t, visited, records-1)
		require.Less(t, most, before+64<<10)
	}
}

func TestASlowReaderOfTheJournalGetsASkippedRecord(t *testing.T) {
	t.Parallel()
	const capacity, more = 1000, 700
	j := filled(capacity, capacity)
	seen, missing := 0, 0
	j.Each(journal.Query{}, func(r journal.Record) bool {
		if seen == 0 {
			for range more {
				j.Add(journal.Record{ID: "late"})
			}
		}
		if r.Kind == journal.Skipped {
			missing += r.Count
		} else {
			require.NotEqual(t, "late", r.ID, "it came after the question")
			seen++
		}
		return true
	})
	require.Positive(t, missing)
	require.Equal(t, capacity, seen+missing)
}

func TestAReaderMayStop(t *testing.T) {
	t.Parallel()
	visited := 0
	filled(1000, 1000).Each(journal.Query{}, func(journal.Record) bool {
		visited++
		return visited < 3
	})
	require.Equal(t, 3, visited)
}

// follow returns what is followed, until the test ends.
func follow(t *testing.T, j *journal.Journal, q journal.Query) <-chan journal.Record {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	followed := make(chan journal.Record)
	var done sync.WaitGroup
	done.Go(func() {
		j.Follow(ctx, q, func(r journal.Record) {
			select {
			case followed <- r:
			case <-ctx.Done():
			}
		})
	})
	t.Cleanup(func() { stop(); done.Wait() })
	return followed
}

func TestAFollowerGetsWhatIsThereAndWhatComes(t *testing.T) {
	t.Parallel()
	j := filled(10, 3)
	followed := follow(t, j, journal.Query{Limit: 2})
	require.Equal(t, "1", (<-followed).ID)
	require.Equal(t, "2", (<-followed).ID)
	j.Add(journal.Record{ID: "3"})
	j.Add(journal.Record{ID: "4"})
	require.Equal(t, "3", (<-followed).ID)
	require.Equal(t, "4", (<-followed).ID)
}

func TestASlowFollowerOfTheJournalGetsASkippedRecord(t *testing.T) {
	t.Parallel()
	j := journal.New(4)
	followed := follow(t, j, journal.Query{})
	j.Add(journal.Record{ID: "0"})
	first := <-followed
	require.Equal(t, "0", first.ID)
	const more = 1000
	for i := 1; i <= more; i++ { // it takes at most one of them meanwhile, and a chunk that it has read
		j.Add(journal.Record{ID: strconv.Itoa(i)})
	}
	seen, missing := 0, 0
	for last := ""; last != strconv.Itoa(more); {
		r := <-followed
		if r.Kind == journal.Skipped {
			missing += r.Count
			continue
		}
		seen++
		last = r.ID
	}
	require.Positive(t, missing)
	require.Equal(t, more, seen+missing)
}

func TestManyMayAddAndFollowAtATime(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 200
	j := journal.New(writers * each)
	followed := follow(t, j, journal.Query{})
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range each {
				j.Add(journal.Record{ID: strconv.Itoa(w), Attempt: i})
			}
		})
	}
	next := map[string]int{}
	for range writers * each {
		r := <-followed
		require.Equal(t, next[r.ID], r.Attempt, "in the order in which they were added")
		next[r.ID]++
	}
	all.Wait()
}

func TestANilJournalHasNothingAndFollowsUntilTheEnd(t *testing.T) {
	t.Parallel()
	var j *journal.Journal
	j.Add(journal.Record{ID: "1"})
	require.Empty(t, j.Recent(journal.Query{}))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	j.Follow(ctx, journal.Query{}, func(journal.Record) { t.Error("there is none") })
}

func TestARecordIsTheSameAfterJSON(t *testing.T) {
	t.Parallel()
	due := noon.Add(time.Second)
	for name, tc := range map[string]struct {
		record journal.Record
		want   string
	}{
		"stored": {
			journal.Record{Time: noon, Kind: journal.Stored, ID: "1", Source: "shop", Type: "order.received", Trace: "abc", Took: 1500 * time.Microsecond},
			`{"time":"2026-05-04T12:00:00Z","kind":"stored","id":"1","source":"shop","type":"order.received","trace":"abc","took":0.0015}`,
		},
		"retry": {
			journal.Record{
				Time: noon, Kind: journal.Retry, ID: "1", Cause: "0", Namespace: "orders", Subscription: "pricing", Sink: "orders/pricing",
				Stored: noon, Attempt: 2, Status: 500, Reason: "sink failed", Due: &due, Began: noon,
			},
			`{"time":"2026-05-04T12:00:00Z","kind":"retry","id":"1","cause":"0","namespace":"orders","subscription":"pricing",` +
				`"sink":"orders/pricing","stored":"2026-05-04T12:00:00Z","attempt":2,"status":500,"reason":"sink failed",` +
				`"due":"2026-05-04T12:00:01Z","began":"2026-05-04T12:00:00Z"}`,
		},
		"skipped": {journal.Record{Time: noon, Kind: journal.Skipped, Count: 7}, `{"time":"2026-05-04T12:00:00Z","kind":"skipped","count":7}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body, err := json.Marshal(tc.record)
			require.NoError(t, err)
			require.Equal(t, tc.want, string(body))
			var back journal.Record
			require.NoError(t, json.Unmarshal(body, &back))
			require.Equal(t, tc.record, back)
		})
	}
	require.Error(t, json.Unmarshal([]byte(`{"kind":7}`), &journal.Record{}))
}
