package eventbridge

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/loopback"
)

func TestANamespaceOverItsQuotaLosesItsOldestEventsOnly(t *testing.T) {
	t.Parallel()
	sink := loopback.StartSink(t, nil)
	w := newFixture(t, loopback.Ready(sink.Address()))
	small := broker.DefaultStreamOptions()
	small.MaxBytes = 6 << 20
	require.NoError(t, w.conn.EnsureStreams(t.Context(), small))
	dead := orders(sinkURL)
	dead.Subscription = types.NamespacedName{Namespace: "hostile", Name: "dead"}
	dead.Consumer = routing.ConsumerName("hostile", "dead")
	dead.Subjects = []string{"kyma.hostile.spam", routing.RedeliverySubject(dead.Consumer)}
	dead.Paused = true
	ensureConsumer(t, w.conn, dead, w.ackWait)
	w.routes.set(orders(sinkURL), dead)
	r := w.start(t, func(d *Deps, _ *Options) { d.Storage, d.Quota = w.store, w.store })

	const size = 20_000
	spam := strings.Repeat("x", size)
	pace := time.NewTicker(20 * time.Millisecond) // of a flood that fills the stream in some seconds
	defer pace.Stop()
	published := 0
	for ; published*size < 8<<20; published++ {
		status := r.post(t, "/publish", fmt.Sprintf(`{"specversion":"1.0","id":"%d","source":"hostile","type":"spam","data":%q}`, published, spam),
			structured)
		require.Equal(t, http.StatusNoContent, status, "its oldest events give way before the stream is full")
		if published%10 == 0 {
			r.publishMany(t, published/10, 1)
		}
		<-pace.C
	}
	w.backlogIs(t, 0, 0)
	require.Equal(t, once((published+9)/10), countRequests(sink), "who keeps nothing gives up nothing")
	require.Zero(t, w.deadLetters(t))

	deadLetters, err := w.conn.DeadLetters(t.Context(), dead.Subscription)
	require.NoError(t, err)
	require.Positive(t, deadLetters)
	require.Eventually(t, func() bool {
		deadLetters, err := w.conn.DeadLetters(t.Context(), dead.Subscription)
		require.NoError(t, err)
		backlog, err := w.conn.Backlog(t.Context(), broker.DefaultStream, dead.Consumer)
		require.NoError(t, err)
		return deadLetters+backlog.Total() == uint64(published)
	}, timeout, tick, "published = acked + dead-lettered + pending")
	page, err := w.conn.ListDeadLetters(t.Context(), broker.DeadLetterQuery{Limit: 1000})
	require.NoError(t, err)
	given := map[string]failure.Reason{}
	for _, deadLetter := range page.DeadLetters {
		given[deadLetter.ID] = deadLetter.Reason
	}
	require.Equal(t, failure.QuotaExceeded, given["0"], "the oldest go")
	require.NotContains(t, given, strconv.Itoa(published-1), "the latest stay")
}

func TestHeldBytesOfAConsumerAreMeasured(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	r := w.start(t)
	r.publishMany(t, 0, 300)
	for i, data := range []int{60_000, 1, 30_000} {
		status := r.post(t, "/publish", fmt.Sprintf(`{"specversion":"1.0","id":"l%d","source":"shop","type":"order.received.v1","data":%q}`, i,
			strings.Repeat("x", data)), structured)
		require.Equal(t, http.StatusNoContent, status)
	}
	use, err := w.store.Use(t.Context())
	require.NoError(t, err)
	held, err := w.store.Bytes(t.Context(), orders(sinkURL).Subscription, use.Bytes+1)
	require.NoError(t, err)
	require.Equal(t, use.Bytes, held)
	waiting, err := w.store.Waiting(t.Context())
	require.NoError(t, err)
	require.Len(t, waiting, 1)
	require.EqualValues(t, 303, waiting[0].Events)
}

var structured = map[string]string{"Content-Type": "application/cloudevents+json"}

// countRequests is how often each event came.
func countRequests(sink *loopback.Sink) map[string]int {
	counts := map[string]int{}
	for _, request := range sink.Requests() {
		counts[request.ID()]++
	}
	return counts
}
