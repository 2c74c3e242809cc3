package broker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/routing"
)

// newRetrier has a consumer with the name of a Subscription's, which RetryNow looks for.
func newRetrier(t *testing.T) (*feed, *receiver) {
	t.Helper()
	f := newFeed(t)
	name := routing.ConsumerName(subscription().Namespace, subscription().Name)
	ensureConsumer(t, f.conn, Consumer{Name: name, Subjects: []string{testSubject, routing.RedeliverySubject(name)}, AckWait: time.Hour})
	return f, receive(t, NewSource(f.conn, testStream, name, subscription(), 1000))
}

func TestWhatWaitsForItsNextAttemptIsDeliveredNow(t *testing.T) {
	t.Parallel()
	f, s := newRetrier(t)
	forward(t, f.conn)
	const events = 150 // several batches
	f.publish(t, events)
	for _, m := range fetch(t, s, events) {
		require.NoError(t, m.Retry(t.Context(), time.Hour))
	}
	awaitRetries(t, f.conn, subscription(), events)
	done, err := f.conn.RetryNow(t.Context(), testStream, subscription())
	require.NoError(t, err)
	require.Equal(t, Retried{Retried: events}, done)
	seen := map[string]bool{}
	for _, m := range fetch(t, s, events) {
		require.Equal(t, 2, m.Attempt())
		require.Equal(t, testSubject, m.Subject())
		require.False(t, seen[id(t, m)], "it came twice")
		seen[id(t, m)] = true
		require.NoError(t, m.Ack(t.Context()))
	}
	awaitRetries(t, f.conn, subscription(), 0)
	done, err = f.conn.RetryNow(t.Context(), testStream, subscription())
	require.NoError(t, err)
	require.Equal(t, Retried{}, done)
	require.Empty(t, s.arrived)
}

func TestOnlyTheRetriesOfOneSubscriptionAreDeliveredNow(t *testing.T) {
	t.Parallel()
	f, s := newRetrier(t)
	storeRetries(t, f.conn, 3, time.Hour, nil)
	f.publish(t, 1)
	require.NoError(t, fetchOne(t, s).Retry(t.Context(), time.Hour))
	done, err := f.conn.RetryNow(t.Context(), testStream, subscription())
	require.NoError(t, err)
	require.Equal(t, Retried{Retried: 1}, done)
	require.Equal(t, 2, fetchOne(t, s).Attempt())
	awaitRetries(t, f.conn, hostile, 3)

	_, err = f.conn.RetryNow(t.Context(), testStream, hostile)
	require.ErrorIs(t, err, ErrConsumerNotFound)
	awaitRetries(t, f.conn, hostile, 3)
}

func TestACallBringsABoundedNumberOfRetriesBack(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	name := routing.ConsumerName(hostile.Namespace, hostile.Name)
	ensureConsumer(t, f.conn, Consumer{Name: name, Subjects: []string{"kyma.evil", routing.RedeliverySubject(name)}})
	storeRetries(t, f.conn, MaxRetriedNow+5, time.Hour, nil)
	done, err := f.conn.RetryNow(t.Context(), testStream, hostile)
	require.NoError(t, err)
	require.Equal(t, Retried{Retried: MaxRetriedNow, Remaining: 5}, done)
	awaitBacklog(t, f.conn, name, Backlog{Pending: MaxRetriedNow})
}

// Bridges bring them back meanwhile, and move them from level to level.
func TestRetriesThatAreDueAboutNowComeBackOnce(t *testing.T) {
	t.Parallel()
	f, s := newRetrier(t)
	forward(t, f.conn)
	// Sums of levels: some are due, and some move on, while RetryNow looks at them.
	delays := []time.Duration{0, retryUnit, time.Second, 3 * time.Second, 4500 * time.Millisecond, 33 * time.Second, 66 * time.Second, time.Hour + 2*time.Second}
	f.publish(t, 10*len(delays))
	for i, m := range fetch(t, s, 10*len(delays)) {
		require.NoError(t, m.Retry(t.Context(), delays[i%len(delays)]))
	}
	require.Eventually(t, func() bool {
		_, err := f.conn.RetryNow(t.Context(), testStream, subscription())
		return err == nil && waitingOfOrders(t, f.conn) == 0
	}, testTimeout, 10*moment, "everything comes back at last")
	seen := map[string]int{}
	for _, m := range fetch(t, s, 10*len(delays)) {
		seen[id(t, m)]++
		require.NoError(t, m.Ack(t.Context()))
	}
	require.Len(t, seen, 10*len(delays))
	require.Empty(t, s.arrived, "nothing comes twice")
}

func waitingOfOrders(t *testing.T, conn *Conn) uint64 {
	t.Helper()
	counts, err := conn.WaitingRetries(t.Context())
	require.NoError(t, err)
	return counts[subscription()]
}

func TestARetryThatWasBroughtBackAndNotDeletedComesBackOnce(t *testing.T) {
	t.Parallel()
	f, s := newRetrier(t)
	f.publish(t, 1)
	require.NoError(t, fetchOne(t, s).Retry(t.Context(), time.Hour))
	awaitRetries(t, f.conn, subscription(), 1)
	retries, err := f.conn.js.Stream(t.Context(), RetryStream)
	require.NoError(t, err)
	raw, err := retries.GetMsg(t.Context(), retries.CachedInfo().State.LastSeq)
	require.NoError(t, err)
	m, level := waitingMessage(f.conn, raw)
	require.Equal(t, levelOf(time.Hour), level)
	require.NoError(t, newForwarder(f.conn, testStream).bringBack(t.Context(), m)) // and the process is killed
	require.Equal(t, 2, fetchOne(t, s).Attempt())

	done, err := f.conn.RetryNow(t.Context(), testStream, subscription())
	require.NoError(t, err)
	require.Equal(t, Retried{Retried: 1}, done)
	awaitBacklog(t, f.conn, routing.ConsumerName(subscription().Namespace, subscription().Name), Backlog{AckPending: 1})
	require.Empty(t, s.arrived)
}

func TestARetryOfADeletedSubscriptionIsNotBroughtBackToOneOfItsName(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	name := routing.ConsumerName(hostile.Namespace, hostile.Name)
	ensureConsumer(t, f.conn, Consumer{
		Name: name, Subjects: []string{"kyma.evil", routing.RedeliverySubject(name)}, Metadata: map[string]string{MetadataUID: "new"},
	})
	storeRetries(t, f.conn, 1, time.Hour, map[string][]string{headerUID: {"old"}})
	done, err := f.conn.RetryNow(t.Context(), testStream, types.NamespacedName{Namespace: hostile.Namespace, Name: hostile.Name})
	require.NoError(t, err)
	require.Equal(t, Retried{Failed: 1, Remaining: 1, Problems: []string{"it waits for a Subscription of the same name that was deleted"}}, done)
	awaitBacklog(t, f.conn, name, Backlog{})
}
