package broker

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/routing"
)

func TestANamespaceHoldsAsMuchAsIsFreeAndASubscriptionHalfAsMuch(t *testing.T) {
	t.Parallel()
	count := &retryCount{free: 100, bySource: map[string]uint64{}}
	fill := func(name string) (held uint64) {
		for count.add(name, 1) == nil {
			held++
		}
		return held
	}
	require.EqualValues(t, 33, fill("a"), "a third, and two thirds are free")
	require.EqualValues(t, 17, fill("b"), "half of all is the namespace's")
	require.Zero(t, fill("c"))
	require.EqualValues(t, 50, count.free)
	require.ErrorContains(t, count.add("c", 1), "those of the namespace hold 50 bytes")
	require.ErrorIs(t, count.add("a", 1), ErrRetryShare)
}

func TestRetriesAreSpreadWhenManyOfTheirNamespaceWait(t *testing.T) {
	t.Parallel()
	require.Equal(t, time.Minute, spread(time.Minute, spreadPerSecond, 1))
	require.Equal(t, time.Minute+5*time.Second, spread(time.Minute, 11*spreadPerSecond, 0.5))
	require.Equal(t, time.Minute, spread(time.Minute, 11*spreadPerSecond, 0))
	require.Equal(t, 2*time.Second, spread(time.Second, 1_000_000, 1), "by no more than as long again")
	require.Equal(t, MaxRetryDelay, spread(MaxRetryDelay, 1_000_000, 1))
}

func TestOneNamespacesRetriesLeaveStorageForThoseOfAnother(t *testing.T) {
	t.Parallel()
	f := newFeed(t, func(c *Consumer) { c.AckWait, c.MaxAckPending = time.Hour, 1000 })
	options := testStreams()
	options.RetryMaxBytes = 64 * kibibyte
	require.NoError(t, f.conn.EnsureStreams(t.Context(), options))
	f.publish(t, 200)
	s := f.steady(t)
	for range 200 {
		require.NoError(t, fetchOne(t, s).Retry(t.Context(), time.Hour))
	}
	held := waitingRetries(t, f.conn)
	require.NotZero(t, held)
	require.Less(t, held, uint64(50), "the others wait in their consumer")
	awaitBacklog(t, f.conn, "c1", Backlog{AckPending: 200 - held})

	other := types.NamespacedName{Namespace: "victim", Name: "orders"}
	name := routing.ConsumerName("victim", "orders")
	ensureConsumer(t, f.conn, Consumer{Name: name, Subjects: []string{testSubject, routing.RedeliverySubject(name)}})
	f.publish(t, 1)
	theirs := receive(t, NewSource(f.conn, testStream, name, other, 10))
	require.Equal(t, strconv.Itoa(200), id(t, theirs.retryFirst(t, time.Hour)))
	counts, err := f.conn.WaitingRetries(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 1, counts[other])
}

// retryFirst has the first message wait for another attempt, and returns it.
func (r *receiver) retryFirst(t *testing.T, delay time.Duration) *Message {
	t.Helper()
	m := fetchOne(t, r)
	require.NoError(t, m.Retry(t.Context(), delay))
	return m
}
