package broker

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/routing"
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

func TestADelayBelongsToTheLongestLevelThatItFills(t *testing.T) {
	t.Parallel()
	for delay, want := range map[time.Duration]string{
		0:                       "0s",
		retryUnit - 1:           "0s",
		retryUnit:               "125ms",
		2*retryUnit - 1:         "125ms",
		time.Second:             "1s",
		90 * time.Second:        "1m4s",
		time.Hour:               "34m8s",
		MaxRetryDelay:           "18h12m16s",
		1000 * time.Hour:        "18h12m16s",
		-time.Second:            "0s",
		1500 * time.Millisecond: "1s",
	} {
		require.Equal(t, want, levelOf(delay).String(), delay)
	}
	for level := range lastRetryLevel + 1 {
		require.Equal(t, level, levelOf(level.wait()))
		require.Equal(t, min(level+1, lastRetryLevel), levelOf(level.longest()))
	}
	require.Greater(t, lastRetryLevel.longest(), MaxRetryDelay)
}

func TestARetryIsScheduledAtTheEndOfItsLevelOrWhenDue(t *testing.T) {
	t.Parallel()
	stored := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	delayed := func(d time.Duration) nats.Header {
		return nats.Header{headerDelay: {strconv.FormatInt(d.Nanoseconds(), 10)}}
	}
	at := func(d time.Duration) nats.Header {
		return nats.Header{headerDue: {strconv.FormatInt(stored.Add(d).UnixNano(), 10)}}
	}
	for name, tc := range map[string]struct {
		delay     time.Duration // that the level is for
		header    nats.Header
		due, next time.Duration
	}{
		"nothing is left":                {time.Second, delayed(time.Second), time.Second, time.Second},
		"less than a unit is left":       {time.Second, delayed(1100 * time.Millisecond), 1100 * time.Millisecond, 1100 * time.Millisecond},
		"more is left":                   {time.Second, delayed(1900 * time.Millisecond), 1900 * time.Millisecond, time.Second},
		"no level":                       {0, delayed(100 * time.Millisecond), 100 * time.Millisecond, 100 * time.Millisecond},
		"by a time":                      {time.Second, at(1500 * time.Millisecond), 1500 * time.Millisecond, time.Second},
		"a time that is over":            {4 * time.Second, at(-time.Hour), 4 * time.Second, 4 * time.Second},
		"a time of a clock that is late": {time.Second, at(1000 * time.Hour), 2 * time.Second, time.Second},
		"a delay that is no number":      {time.Second, nats.Header{headerDelay: {"soon"}}, time.Second, time.Second},
		"without headers":                {time.Second, nats.Header{}, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			due, next := levelOf(tc.delay).schedule(stored, tc.header)
			require.Equal(t, tc.due, due.Sub(stored))
			require.Equal(t, tc.next, next.Sub(stored))
		})
	}
}

func TestARetrySubjectHasItsSubscriptionAndSize(t *testing.T) {
	t.Parallel()
	name := types.NamespacedName{Namespace: "4s", Name: "orders.v1.eu"}
	subject := retrySubject(levelOf(5*time.Second), sizeClass(3000), name)
	require.Equal(t, "rouse.delay.4s.4.4s.orders.v1.eu", subject)
	size, of := waitingOf(subject)
	require.Equal(t, name, of)
	require.EqualValues(t, 4*kibibyte, classBytes(size))
	size, of = waitingOf("rouse.retry.4s.orders.v1.eu")
	require.Equal(t, name, of)
	require.Empty(t, size)
	for bytes, want := range map[int]string{0: "1", 1: "1", 1024: "1", 1025: "2", 2048: "2", 2049: "4", 1 << 20: "1024"} {
		require.Equal(t, want, sizeClass(bytes), bytes)
	}
}

func TestTheTimeOfTheServerIsNeverAheadAndBehindByAnAnswerAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		of := 7 * time.Hour // is the server ahead of this machine
		k := NewServerClock(nil)
		ask := func(question, answer time.Duration) {
			asked := time.Now()
			time.Sleep(question)
			server := time.Now().Add(of)
			time.Sleep(answer)
			k.learn(server, asked, time.Now())
		}
		behind := func() time.Duration { return time.Now().Add(of).Sub(k.Now()) }

		ask(50*time.Millisecond, 150*time.Millisecond)
		<-k.ready
		require.Equal(t, 150*time.Millisecond, behind())
		ask(time.Millisecond, time.Millisecond)
		require.Equal(t, time.Millisecond, behind(), "a quicker answer is better")
		ask(100*time.Millisecond, 100*time.Millisecond)
		require.Equal(t, time.Millisecond, behind(), "a slower one that may be right changes nothing")
		for _, set := range []time.Duration{time.Minute, -time.Minute} {
			of += set
			ask(time.Millisecond, time.Millisecond)
			require.Equal(t, time.Millisecond, behind(), "the server's clock was set")
		}
	})
}

func TestACopyWaitsInOneLevelThatIsLongEnough(t *testing.T) {
	t.Parallel()
	for delay, want := range map[time.Duration]string{
		0:                 "0s",
		time.Millisecond:  "125ms",
		retryUnit:         "125ms",
		retryUnit + 1:     "250ms",
		172 * time.Second: "4m16s",
		time.Hour:         "1h8m16s",
		MaxRetryDelay:     "18h12m16s",
	} {
		level := levelAbove(delay)
		require.Equal(t, want, level.String(), delay)
		stored := time.Unix(1000, 0)
		due, next := level.schedule(stored, nats.Header{headerDelay: {strconv.FormatInt(level.wait().Nanoseconds(), 10)}})
		require.Equal(t, next, due, "it is moved to no other level")
		require.Equal(t, stored.Add(level.wait()), due)
	}
}

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
