package broker

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/testing/never"
)

// forward brings retries back until the returned function is called, or the test ends.
// unlimitedBudgets bound nothing.
func unlimitedBudgets(string) MemoryBudget { return unlimitedBudget{} }

func forward(t *testing.T, conn *Conn) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { conn.ForwardRetries(ctx, testStream, unlimitedBudgets) })
	stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(stop)
	return stop
}

func waitingRetries(t *testing.T, conn *Conn) uint64 {
	t.Helper()
	counts, err := conn.WaitingRetries(t.Context())
	require.NoError(t, err)
	return counts[subscription()]
}

// awaitRetries waits until so many wait: one is settled after it has come back.
func awaitRetries(t *testing.T, conn *Conn, of types.NamespacedName, waiting uint64) {
	t.Helper()
	require.Eventually(t, func() bool {
		counts, err := conn.WaitingRetries(t.Context())
		return err == nil && counts[of] == waiting
	}, testTimeout, moment)
}

func TestARetryComesBackWhenItIsDueAndCounts(t *testing.T) {
	t.Parallel()
	const delay = 500 * time.Millisecond
	f := newFeed(t, func(c *Consumer) { c.AckWait = time.Hour })
	forward(t, f.conn)
	f.publish(t, 1)
	s := f.source(t)
	first := fetchOne(t, s)
	begin := time.Now()
	require.NoError(t, first.Retry(t.Context(), delay))
	awaitBacklog(t, f.conn, "c1", Backlog{})
	second := fetchOne(t, s)
	require.GreaterOrEqual(t, time.Since(begin), delay-retryUnit/2, "the server's clock is known within half a round trip")
	require.Equal(t, 2, second.Attempt())
	require.Equal(t, testSubject, second.Subject())
	require.True(t, first.Stored().Equal(second.Stored()))
	require.Equal(t, "0", id(t, second))

	require.NoError(t, second.Return(t.Context(), 0))
	require.NoError(t, fetchOne(t, s).Retry(t.Context(), 0))
	third := fetchOne(t, s)
	require.Equal(t, 3, third.Attempt(), "a return does not count")
	require.NoError(t, third.Ack(t.Context()))
	awaitBacklog(t, f.conn, "c1", Backlog{})
	awaitRetries(t, f.conn, subscription(), 0)
}

func TestAWaitingRetryDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	f := newFeed(t, func(c *Consumer) { c.MaxAckPending = 1 })
	forward(t, f.conn)
	f.publish(t, 20)
	s := f.source(t)
	for range 19 {
		require.NoError(t, fetchOne(t, s).Retry(t.Context(), time.Hour))
	}
	require.Equal(t, "19", id(t, fetchOne(t, s)))
	awaitRetries(t, f.conn, subscription(), 19)
}

func TestARetryWaitsWhileItsConsumerCannotTakeIt(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, conn *Conn){
		"because it is missing": func(t *testing.T, conn *Conn) {
			t.Helper()
			require.NoError(t, conn.DeleteConsumer(t.Context(), testStream, "c1"))
		},
		"because its filter leaves it out": func(t *testing.T, conn *Conn) {
			t.Helper()
			ensureConsumer(t, conn, Consumer{Name: "c1", Subjects: []string{testSubject}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFeed(t)
			f.publish(t, 1)
			s := f.source(t)
			require.NoError(t, fetchOne(t, s).Retry(t.Context(), 0))
			s.cancel() // it would take what comes back
			require.NoError(t, await(t, s.ended))
			spoil(t, f.conn)
			forward(t, f.conn)
			never.Happens(t, func() bool { return waitingRetries(t, f.conn) == 0 }, 30*moment, moment, "the stream has dropped it")

			ensureConsumer(t, f.conn, Consumer{Name: "c1", Subjects: []string{testSubject, newSource(f.conn).redelivery}})
			require.Equal(t, 2, fetchOne(t, f.source(t)).Attempt())
		})
	}
}

func TestARetryThatCannotBeStoredWaitsInItsConsumer(t *testing.T) {
	t.Parallel()
	f := newFeed(t, func(c *Consumer) { c.AckWait = time.Hour })
	require.NoError(t, f.conn.js.DeleteStream(t.Context(), RetryStream))
	f.publish(t, 1)
	s := f.source(t)
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	require.NoError(t, fetchOne(t, s).Retry(ctx, 10*time.Millisecond))
	again := fetchOne(t, s)
	require.Equal(t, 1, again.Attempt())
	require.NoError(t, again.Ack(t.Context()))
}

func TestRetriesOfASubscriptionThatGoesArePurged(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.publish(t, 3)
	s := f.source(t)
	for range 3 {
		require.NoError(t, fetchOne(t, s).Retry(t.Context(), time.Hour))
	}
	require.NoError(t, f.conn.PurgeRetries(t.Context(), types.NamespacedName{Namespace: "shop", Name: "order"}))
	awaitRetries(t, f.conn, subscription(), 3)
	require.NoError(t, f.conn.PurgeRetries(t.Context(), subscription()))
	awaitRetries(t, f.conn, subscription(), 0)
}

func TestSeveralForwardersShareTheWork(t *testing.T) {
	t.Parallel()
	const events = 200
	f := newFeed(t, func(c *Consumer) { c.AckWait = time.Hour })
	other := connect(t, f.server.URL())
	awaitConnected(t, other)
	forward(t, other)
	stop := forward(t, f.conn)
	f.publish(t, events)
	s := f.source(t)
	for i := range events {
		require.NoError(t, fetchOne(t, s).Retry(t.Context(), time.Duration(i)*time.Millisecond))
	}
	stop()
	attempts := map[string]int{}
	for range events {
		m := fetchOne(t, s)
		attempts[id(t, m)]++
		require.Equal(t, 2, m.Attempt())
		require.NoError(t, m.Ack(t.Context()))
	}
	require.Len(t, attempts, events)
	awaitBacklog(t, f.conn, "c1", Backlog{})
}

func TestAConsumerThatStartsElsewhereLosesNothing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		from StartFrom
		want []string
	}{
		"from all that is stored": {StartFrom{Policy: StartAll}, []string{"1", "2", "3", "4", "5"}},
		"from now on":             {StartFrom{}, []string{"1", "2", "3", "4", "5"}},
		"from a sequence before":  {StartFrom{Policy: StartSequence, Sequence: 1}, []string{"1", "2", "3", "4", "5"}},
		"from a sequence after":   {StartFrom{Policy: StartSequence, Sequence: 100}, []string{"1", "2", "3", "4", "5"}},
		"from a time after":       {StartFrom{Policy: StartTime, Time: time.Now().Add(time.Hour)}, []string{"1", "2", "3", "4", "5"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFeed(t, func(c *Consumer) { c.StartFrom = StartFrom{Policy: StartSequence, Sequence: 2} })
			f.publish(t, 4) // the first is before the start
			s := f.source(t)
			m := fetchOne(t, s)
			require.Equal(t, "1", id(t, m))
			s.cancel()
			require.NoError(t, await(t, s.ended))

			ensureConsumer(t, f.conn, Consumer{Name: "c1", Subjects: []string{testSubject}, StartFrom: tc.from})
			f.publish(t, 2)
			again := f.source(t)
			var got []string
			for range tc.want {
				m := fetchOne(t, again)
				got = append(got, id(t, m))
				require.NoError(t, m.Ack(t.Context()))
			}
			require.Equal(t, tc.want, got)
			awaitBacklog(t, f.conn, "c1", Backlog{})
			_, err := f.conn.js.Consumer(t.Context(), testStream, "c1"+standbySuffix)
			require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
		})
	}
}

func TestAnInterruptedConsumerRestartIsContinued(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.publish(t, 3)
	handle, err := f.conn.js.Consumer(t.Context(), testStream, "c1")
	require.NoError(t, err)
	standby := Consumer{
		Name: "c1" + standbySuffix, Subjects: []string{testSubject}, StartFrom: StartFrom{Policy: StartSequence, Sequence: 1},
	}
	_, err = f.conn.js.CreateConsumer(t.Context(), testStream, standby.config())
	require.NoError(t, err)
	require.NoError(t, f.conn.DeleteConsumer(t.Context(), testStream, handle.CachedInfo().Name))

	ensureConsumer(t, f.conn, Consumer{Name: "c1", Subjects: []string{testSubject}})
	s := f.source(t)
	for range 3 {
		require.NoError(t, fetchOne(t, s).Ack(t.Context()))
	}
	awaitBacklog(t, f.conn, "c1", Backlog{})
}

// The timeout of a test is shorter than the time in which other consumers deliver again.
func TestARetryComesBackSoonWhenTheBridgeThatHeldItIsKilled(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.publish(t, 1)
	s := f.source(t)
	require.NoError(t, fetchOne(t, s).Retry(t.Context(), 0))
	killed := connect(t, f.server.URL())
	awaitConnected(t, killed)
	held := receive(t, NewSource(killed, RetryStream, retryLevel(0).consumer(), types.NamespacedName{}, maxForwards))
	fetchOne(t, held)
	killed.nc.Close()
	forward(t, f.conn)
	require.Equal(t, 2, fetchOne(t, s).Attempt())
}
