package eventbridge

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/eventbridge/dispatch"
	"github.com/rouse-run/rouse/eventbridge/journal"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

// await returns the first record of a kind about an event. The sink may have it before its publisher knows that it is stored.
func await(t *testing.T, j *journal.Journal, id string, kind journal.Kind) journal.Record {
	t.Helper()
	var records []journal.Record
	require.Eventually(t, func() bool {
		records = j.Recent(journal.Query{ID: id, Kinds: []journal.Kind{kind}})
		return len(records) > 0
	}, timeout, tick)
	return records[0]
}

func TestTheJournalRecordsTheDeliveryOfAnEvent(t *testing.T) {
	t.Parallel()
	answers := make(chan int, 2)
	answers <- http.StatusInternalServerError
	answers <- http.StatusBadRequest
	price := loopback.StartSink(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		select {
		case status := <-answers:
			w.WriteHeader(status)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	}))
	w := newFixture(t, loopback.Ready(price.Address()))
	j := journal.New(100)
	r := w.start(t, func(d *Deps, _ *Options) { d.Journal = j })
	status, _ := r.publish(t, "1")
	require.Equal(t, http.StatusNoContent, status)

	stored, retry, deadLetter := await(t, j, "1", journal.Stored), await(t, j, "1", journal.Retry), await(t, j, "1", journal.DeadLettered)
	require.Len(t, j.Recent(journal.Query{ID: "1"}), 3)
	require.Equal(t, "shop", stored.Source)
	require.Equal(t, "order.received.v1", stored.Type)
	require.Regexp(t, "^[0-9a-f]{32}$", stored.Trace, "an event without a trace gets one")
	require.Positive(t, stored.Took)

	require.Equal(t, stored.Trace, retry.Trace)
	require.Equal(t, "shop", retry.Namespace)
	require.Equal(t, "orders", retry.Subscription)
	require.Equal(t, "shop/price", retry.Sink)
	require.Equal(t, 1, retry.Attempt)
	require.Equal(t, http.StatusInternalServerError, retry.Status)
	require.Equal(t, "SinkFailed", retry.Reason)
	require.Equal(t, "sink failed with the event", retry.Message)
	require.True(t, retry.Due.After(retry.Began))
	require.False(t, retry.Stored.IsZero())

	require.Equal(t, 2, deadLetter.Attempt)
	require.Equal(t, http.StatusBadRequest, deadLetter.Status)
	require.Equal(t, "SinkRejected", deadLetter.Reason)
	require.Equal(t, "sink refused the event", deadLetter.Message)
	require.Equal(t, retry.Stored.UTC(), deadLetter.Stored.UTC(), "a retry knows when its event came first")

	_, _ = r.publish(t, "2")
	delivered := await(t, j, "2", journal.Delivered)
	require.Equal(t, http.StatusNoContent, delivered.Status)
	require.Empty(t, delivered.Reason)
}

func TestTheJournalKnowsWhatAReplyAnswers(t *testing.T) {
	t.Parallel()
	price := loopback.StartSink(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Ce-Id") != "1" {
			return
		}
		for name, value := range map[string]string{
			"Ce-Specversion": "1.0", "Ce-Id": "reply", "Ce-Source": "shop", "Ce-Type": "order.received.v1",
		} {
			w.Header().Set(name, value)
		}
	}))
	w := newFixture(t, loopback.Ready(price.Address()))
	j := journal.New(100)
	_, _ = w.start(t, func(d *Deps, _ *Options) { d.Journal = j }).publish(t, "1")
	stored := await(t, j, "reply", journal.Stored)
	require.Equal(t, "1", stored.Cause)
	require.Equal(t, await(t, j, "1", journal.Delivered).Trace, stored.Trace)
}

func TestRecordsOfABatch(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	j := journal.New(100)
	r := w.start(t, func(d *Deps, _ *Options) { d.Journal = j })
	status, _ := r.publishBatch(t,
		`{"specversion":"1.0","id":"a","source":"shop","type":"order.received.v1"}`,
		`{"specversion":"1.0","id":"b","source":"shop","type":"order.received.v1"}`,
		`{"specversion":"1.0","id":"c","source":"shop"}`,
	)
	require.Equal(t, http.StatusBadRequest, status)
	traces := map[string]bool{}
	for _, record := range j.Recent(journal.Query{Kinds: []journal.Kind{journal.Stored}}) {
		traces[record.Trace] = true
	}
	require.Len(t, traces, 2, "what is not stored is no record, and each event has a trace of its own")
}

func TestSettledRecord(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	due := began.Add(3 * time.Second)
	ev := &cloudevent.Event{ID: "1", Source: "shop", Type: "order"}
	ev.SetExtension("rousecause", "0")
	settled := func(outcome dispatch.Outcome) dispatch.Settled {
		return dispatch.Settled{
			Event: ev, Outcome: outcome, Attempt: 2, Status: 503, Reason: failure.NoAnswer, Delay: 2 * time.Second, Began: began, Took: time.Second,
		}
	}
	same := journal.Record{
		Time: began.Add(time.Second), ID: "1", Source: "shop", Type: "order", Cause: "0", Namespace: "shop",
		Attempt: 2, Status: 503, Reason: "NoAnswer", Message: "no answer from the sink", Began: began, Took: time.Second,
	}
	for outcome, change := range map[dispatch.Outcome]func(*journal.Record){
		dispatch.Ack:    func(r *journal.Record) { r.Kind = journal.Delivered },
		dispatch.Retry:  func(r *journal.Record) { r.Kind, r.Due = journal.Retry, &due },
		dispatch.Reject: func(r *journal.Record) { r.Kind = journal.DeadLettered },
		dispatch.Skip:   func(r *journal.Record) { r.Kind, r.Attempt = journal.Filtered, 0 },
	} {
		want := same
		change(&want)
		got, ok := settledRecord(journal.Record{Namespace: "shop"}, settled(outcome))
		require.True(t, ok, outcome)
		require.Equal(t, want, got, outcome)
	}
	_, ok := settledRecord(journal.Record{}, settled(dispatch.Return))
	require.False(t, ok, "what was returned has not happened")
	got, ok := settledRecord(journal.Record{}, dispatch.Settled{Outcome: dispatch.Reject, Began: began})
	require.True(t, ok)
	require.Empty(t, got.ID, "a message that is no event has none")
}

func TestSinkName(t *testing.T) {
	t.Parallel()
	inside := orders(sinkURL)
	outside := routing.Route{External: true, Sink: "https://user:secret@hooks.example.com:8443/in?key=secret"}
	require.Equal(t, "shop/price", sinkName(inside))
	require.Equal(t, "hooks.example.com:8443", sinkName(outside))
}
