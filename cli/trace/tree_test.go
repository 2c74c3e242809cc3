package trace_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/cli/trace"
	"github.com/rouse-run/rouse/eventbridge/journal"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const chain = "4bf92f3577b34da6a3ce929d0e0e4736"

func at(ms int) time.Time {
	return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

// stored returns the record of an event that was stored at a time.
func stored(ms int, id, name, source, cause string) journal.Record {
	return journal.Record{
		Time: at(ms), Kind: journal.Stored, ID: id, Type: name, Source: source, Cause: cause, Trace: chain,
		Began: at(ms - 1), Took: time.Millisecond,
	}
}

// attempt returns the record of a delivery.
func attempt(of journal.Record, subscription string, kind journal.Kind, began, ended int, change ...func(*journal.Record)) journal.Record {
	r := of
	r.Time, r.Kind, r.Began, r.Took = at(ended), kind, at(began), time.Duration(ended-began)*time.Millisecond
	r.Namespace, r.Subscription, r.Sink, r.Attempt, r.Stored = "orders", subscription, "orders/"+subscription, 1, of.Time
	if kind == journal.Delivered {
		r.Status = 204
	}
	for _, c := range change {
		c(&r)
	}
	return r
}

func failed(number, status int, reason, message string, due int) func(*journal.Record) {
	return func(r *journal.Record) {
		r.Attempt, r.Status, r.Reason, r.Message = number, status, reason, message
		if due > 0 {
			next := at(due)
			r.Due = &next
		}
	}
}

func orderChain() []journal.Record {
	received := stored(0, "1001", "order.received", "shop", "")
	priced := stored(540, "p-1", "order.priced", "pricing", "1001")
	invoiced := stored(1300, "i-1", "order.invoiced", "invoicing", "p-1")
	return []journal.Record{
		received,
		attempt(received, "pricing", journal.Delivered, 520, 545),
		attempt(received, "audit", journal.Filtered, 521, 521, func(r *journal.Record) { r.Attempt, r.Status = 0, 0 }),
		priced,
		attempt(priced, "invoicing", journal.Retry, 900, 905, failed(1, 500, "SinkFailed", "sink failed with the event", 1200)),
		attempt(priced, "invoicing", journal.Delivered, 1201, 1310, func(r *journal.Record) { r.Attempt = 2 }),
		invoiced,
		attempt(invoiced, "recorder", journal.DeadLettered, 1400, 1402, failed(1, 400, "SinkRejected", "sink refused the event", 0)),
		attempt(invoiced, "recorder", journal.Delivered, 1500, 1501, func(r *journal.Record) { r.DeadLetter, r.Sink = true, "hooks.example.com" }),
		attempt(invoiced, "mailer", journal.Retry, 1400, 11400, failed(1, 0, "AnswerTimeout", "no answer from the sink in time", 12000)),
	}
}

func TestTree(t *testing.T) {
	t.Parallel()
	received, other := stored(0, "1001", "order.received", "shop", ""), stored(50, "2", "order.received", "shop", "")
	byTrace := stored(30, "t-1", "stock.taken", "stock", "")
	strange := stored(0, "1", "order.received", "shop", "")
	strange.Trace = "00000000000000000000000000000001"
	other.Trace = strange.Trace
	for name, tc := range map[string]struct {
		records []journal.Record
		id      string
	}{
		"chain":                 {orderChain(), "1001"},
		"chain-from-its-end":    {orderChain(), "i-1"},
		"stored-only":           {[]journal.Record{received}, "1001"},
		"known-by-mention":      {[]journal.Record{stored(0, "p-1", "order.priced", "pricing", "lost"), stored(2, "p-2", "order.priced", "pricing", "lost")}, "lost"},
		"under-mentioned-cause": {[]journal.Record{stored(0, "p-1", "order.priced", "pricing", "lost")}, "p-1"},
		"not-stored-here":       {[]journal.Record{attempt(received, "pricing", journal.Delivered, 520, 545)}, "1001"},
		"two-that-cause-each-other": {[]journal.Record{
			stored(0, "a", "ping", "x", "b"), stored(5, "b", "pong", "x", "a"), stored(9, "c", "ping", "x", "c"),
		}, "a"},
		"by-trace": {[]journal.Record{
			received, other, attempt(received, "pricing", journal.Delivered, 10, 40), byTrace,
		}, "t-1"},
		"two-deliveries-at-a-time": {[]journal.Record{
			received,
			attempt(received, "pricing", journal.Delivered, 10, 40), attempt(received, "audit", journal.Delivered, 11, 41),
			stored(30, "p-1", "order.priced", "pricing", "1001"),
		}, "1001"},
		"the-same-id-of-two-sources": {[]journal.Record{
			strange, stored(10, "1", "order.received", "mill", ""), stored(20, "p-1", "order.priced", "pricing", "1"),
		}, "p-1"},
		"redriven": {[]journal.Record{
			received,
			attempt(received, "pricing", journal.DeadLettered, 10, 12, failed(1, 400, "SinkRejected", "sink refused the event", 0)),
			attempt(received, "pricing", journal.Redriven, 60000, 60000, failed(0, 0, "", "", 0)),
		}, "1001"},
		"redriven-and-delivered": {[]journal.Record{
			received,
			attempt(received, "pricing", journal.DeadLettered, 10, 12, failed(1, 400, "SinkRejected", "sink refused the event", 0)),
			attempt(received, "pricing", journal.Redriven, 60000, 60000, failed(0, 0, "", "", 0)),
			attempt(received, "pricing", journal.Delivered, 60005, 60010),
		}, "1001"},
		"clocks-that-differ": {[]journal.Record{
			stored(100, "1001", "order.received", "shop", ""),
			attempt(stored(100, "1001", "order.received", "shop", ""), "pricing", journal.Delivered, 90, 120),
		}, "1001"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tree, err := trace.Tree(tc.records, tc.id)
			require.NoError(t, err)
			written, err := json.MarshalIndent(tree, "", "  ")
			require.NoError(t, err)
			golden(t, name+".txt", []byte(trace.Text(tree)))
			golden(t, name+".json", append(written, '\n'))

			twice := slices.Concat(tc.records, tc.records)
			slices.Reverse(twice)
			again, err := trace.Tree(twice, tc.id)
			require.NoError(t, err)
			require.Equal(t, trace.Text(tree), trace.Text(again), "several bridges may report the same, in any order")
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(file, got, 0o600))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(bytes.TrimSpace(want)), string(bytes.TrimSpace(got)))
}

func TestTreeOfAnUnknownEventIsAnError(t *testing.T) {
	t.Parallel()
	_, err := trace.Tree(orderChain(), "1002")
	require.ErrorIs(t, err, trace.ErrUnknown)
	require.ErrorContains(t, err, `event "1002"`)
	_, err = trace.Tree([]journal.Record{{Kind: journal.DeadLettered}}, "")
	require.ErrorIs(t, err, trace.ErrUnknown, "a message that is not an event has no id")
}
