package broker

import (
	"context"
	"maps"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/routing"
)

var hostile = types.NamespacedName{Namespace: "evil", Name: "orders"}

// storeRetries has so many retries of the hostile Subscription wait.
func storeRetries(t *testing.T, conn *Conn, count int, delay time.Duration, header nats.Header) {
	t.Helper()
	const atATime = 1000
	for ; count > atATime; count -= atATime {
		storeRetries(t, conn, atATime, delay, header)
	}
	confirmations := make([]jetstream.PubAckFuture, count)
	for i := range confirmations {
		retry := &nats.Msg{Subject: retrySubject(levelOf(delay), "1", hostile), Data: []byte("{}"), Header: nats.Header{
			headerDelay:      {strconv.FormatInt(delay.Nanoseconds(), 10)},
			headerRedelivery: {routing.RedeliverySubject(routing.ConsumerName(hostile.Namespace, hostile.Name))},
		}}
		maps.Copy(retry.Header, header)
		var err error
		confirmations[i], err = conn.js.PublishMsgAsync(retry)
		require.NoError(t, err)
	}
	for _, c := range confirmations {
		select {
		case <-c.Ok():
		case err := <-c.Err():
			require.NoError(t, err)
		}
	}
}

// steady is a source that stays while a server is busy or restarts.
func (f *feed) steady(t *testing.T) *receiver {
	t.Helper()
	return receive(t, NewSource(f.conn, testStream, "c1", subscription(), 10))
}

// With one consumer for all, 20,000 retries were as many as it had in view.
func TestWaitingRetriesOfOneTenantDoNotBlockOthers(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	storeRetries(t, f.conn, 21_000, time.Hour, nil)
	forward(t, f.conn)
	f.publish(t, 1)
	s := f.steady(t)
	s.retryFirst(t, time.Second)
	require.Equal(t, 2, fetchOne(t, s).Attempt())
}

// The victim's retry lies between those of the hostile Subscription in the same level, and those before it cannot
// come back: they have no consumer.
func TestRetriesThatCannotComeBackDoNotBlockTheirLevel(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.publish(t, 1)
	s := f.steady(t)
	storeRetries(t, f.conn, 2*maxRetriesAhead, time.Second, nil)
	s.retryFirst(t, time.Second)
	storeRetries(t, f.conn, 2*maxRetriesAhead, time.Second, nil)
	forward(t, f.conn)
	require.Equal(t, 2, fetchOne(t, s).Attempt())
	counts, err := f.conn.WaitingRetries(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, counts[hostile], uint64(4*maxRetriesAhead), "none is dropped")
}

// A delayed negative acknowledgement for each of them would keep the server's timer from ever running out, until so many
// wait that it shows no more.
func TestAnEndlessTrickleOfRetriesKeepsNoneFromComingBack(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	forward(t, f.conn)
	f.publish(t, 1)
	s := f.steady(t)
	const wait = 8 * retryUnit
	s.retryFirst(t, wait)
	pause := time.NewTicker(5 * time.Millisecond)
	defer pause.Stop()
	for stored := 0; len(s.arrived) == 0; stored++ {
		require.Less(t, stored, maxRetriesAhead*9/10)
		storeRetries(t, f.conn, 1, wait, nil)
		<-pause.C
	}
	require.Equal(t, 2, fetchOne(t, s).Attempt())
}

// All of them are due at the moment at which the victim's is.
func TestAVictimsRetryComesBackAmongThousandsThatAreDueWithIt(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	name := routing.ConsumerName(hostile.Namespace, hostile.Name)
	ensureConsumer(t, f.conn, Consumer{Name: name, Subjects: []string{"kyma.evil", routing.RedeliverySubject(name)}})
	forward(t, f.conn)
	f.publish(t, 1)
	s := f.steady(t)
	const most = 3 * maxRetriesAhead / 2 // on each side of it: more than all bridges have in view
	moment := time.Now().Add(3 * time.Second)
	storeRetries(t, f.conn, most, time.Until(moment), nil)
	s.retryFirst(t, time.Until(moment))
	storeRetries(t, f.conn, most, max(time.Until(moment), retryUnit), nil)
	require.Equal(t, 2, fetchOne(t, s).Attempt())
	awaitBacklog(t, f.conn, name, Backlog{Pending: 2 * most})
}

func TestADelayIsTheSumOfSeveralLevels(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	forward(t, f.conn)
	f.publish(t, 1)
	s := f.steady(t)
	const delay = 1*time.Second + 7*retryUnit + 40*time.Millisecond
	m := fetchOne(t, s)
	begin := time.Now()
	require.NoError(t, m.Retry(t.Context(), delay))
	require.Equal(t, 2, fetchOne(t, s).Attempt())
	require.GreaterOrEqual(t, time.Since(begin), delay-retryUnit/2, "the server's clock is known within half a round trip")
}

func TestARetryIsInTimeAfterTheServerWasRestarted(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	forward(t, f.conn)
	f.publish(t, 2)
	s := f.steady(t)
	s.retryFirst(t, 2*time.Second)
	s.retryFirst(t, time.Hour)
	f.server.Restart()
	require.Equal(t, 2, fetchOne(t, s).Attempt())
	awaitRetries(t, f.conn, subscription(), 1)
	require.Empty(t, s.arrived)
}

// A header is what a bridge with a wrong clock, or a hostile one, could have written.
func TestNoTimeInARetryBringsItBackLongAfterItsLevel(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	name := routing.ConsumerName(hostile.Namespace, hostile.Name)
	ensureConsumer(t, f.conn, Consumer{Name: name, Subjects: []string{"kyma.evil", routing.RedeliverySubject(name)}})
	forward(t, f.conn)
	wrong := nats.Header{headerDue: {strconv.FormatInt(time.Now().Add(12*time.Hour).UnixNano(), 10)}}
	storeRetries(t, f.conn, 1, time.Second, wrong)
	awaitBacklog(t, f.conn, name, Backlog{Pending: 1})
}

func TestRetriesOfAnEarlierVersionComeBackWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	name := routing.ConsumerName(hostile.Namespace, hostile.Name)
	ensureConsumer(t, f.conn, Consumer{Name: name, Subjects: []string{"kyma.evil", routing.RedeliverySubject(name)}})
	for i, wait := range []time.Duration{-time.Minute, time.Second, time.Hour} {
		_, err := f.conn.js.PublishMsg(t.Context(), &nats.Msg{
			Subject: subjectOf(oldRetryPrefix, hostile), Data: []byte("{}"), Header: nats.Header{
				headerDue:             {strconv.FormatInt(time.Now().Add(wait).UnixNano(), 10)},
				headerRedelivery:      {routing.RedeliverySubject(name)},
				jetstream.MsgIDHeader: {strconv.Itoa(i)},
			},
		})
		require.NoError(t, err)
	}
	forward(t, f.conn)
	awaitBacklog(t, f.conn, name, Backlog{Pending: 2})
	awaitRetries(t, f.conn, hostile, 1)
	require.NoError(t, f.conn.PurgeRetries(t.Context(), hostile))
	awaitRetries(t, f.conn, hostile, 0)
}

func TestARetryOfADeletedSubscriptionNeverComesToOneOfTheSameName(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	name := routing.ConsumerName(hostile.Namespace, hostile.Name)
	ensureConsumer(t, f.conn, Consumer{
		Name: name, Subjects: []string{"kyma.evil", routing.RedeliverySubject(name)}, Metadata: map[string]string{MetadataUID: "new"},
	})
	forward(t, f.conn)
	long := strconv.FormatInt(time.Now().Add(-2*orphanAge).UnixNano(), 10)
	just := strconv.FormatInt(time.Now().UnixNano(), 10)
	storeRetries(t, f.conn, 1, 0, nats.Header{headerUID: {"old"}, headerDue: {long}, HeaderAttempts: {"1"}})
	storeRetries(t, f.conn, 1, 0, nats.Header{headerUID: {"old"}, headerDue: {just}, HeaderAttempts: {"2"}})
	storeRetries(t, f.conn, 1, 0, nats.Header{headerUID: {"new"}, HeaderAttempts: {"3"}})
	storeRetries(t, f.conn, 1, 0, nats.Header{HeaderAttempts: {"4"}})
	s := receive(t, NewSource(f.conn, testStream, name, hostile, 10).Of("new"))
	got := []int{fetchOne(t, s).Attempt(), fetchOne(t, s).Attempt()}
	require.ElementsMatch(t, []int{4, 5}, got, "its own, and one of a version that stored no UID")
	require.Eventually(t, func() bool {
		counts, err := f.conn.WaitingRetries(t.Context())
		return err == nil && counts[hostile] == 1
	}, testTimeout, moment, "one is dropped; the other waits, because a consumer may not have its UID yet")
	require.Empty(t, s.arrived)
}

func TestRedeliveriesOfADeletedSubscriptionAreSkippedByOneOfTheSameName(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	for _, uid := range []string{"old", "new"} {
		_, err := f.conn.js.PublishMsg(t.Context(), &nats.Msg{
			Subject: routing.RedeliverySubject("c1"), Data: []byte("{}"), Header: nats.Header{headerUID: {uid}, HeaderAttempts: {uid}},
		})
		require.NoError(t, err)
	}
	s := receive(t, newSource(f.conn).Of("new"))
	m := fetchOne(t, s)
	require.Equal(t, "new", m.raw.Header.Get(headerUID))
	require.Empty(t, DeadLetter{}.message(m, time.Now()).Header.Get(headerUID), "a later Subscription of the name may get it by a redrive")
	require.NoError(t, m.Ack(t.Context()))
	awaitBacklog(t, f.conn, "c1", Backlog{})
}

func TestNamespacesTakeTurnsHoweverManyRetriesOneHasInHand(t *testing.T) {
	t.Parallel()
	l := newFairQueue()
	release, done := make(chan struct{}), make(chan string, 503)
	for range maxForwards {
		l.do("evil", func() { <-release })
	}
	for range 500 {
		l.do("evil", func() { done <- "evil" })
	}
	for range 3 {
		l.do("victim", func() { done <- "victim" })
	}
	release <- struct{}{} // one goes on with all the others
	var order []string
	for range cap(done) {
		order = append(order, <-done)
	}
	require.Equal(t, []string{"evil", "victim", "evil", "victim", "evil", "victim", "evil"}, order[:7])
	close(release)
	l.running.Wait()
	require.Zero(t, l.busy)
	require.Empty(t, l.queues)
	require.Empty(t, l.waiting)
}

func TestARetryIsNotForwardedWithoutItsConsumer(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.publish(t, 2)
	s := f.source(t)
	for _, m := range fetch(t, s, 2) {
		require.NoError(t, m.Retry(t.Context(), 0))
	}
	retries := receive(t, NewSource(f.conn, RetryStream, levelOf(0).consumer(), types.NamespacedName{}, 2))
	first, second := fetchOne(t, retries), fetchOne(t, retries)
	to := newForwarder(f.conn, testStream)
	require.NoError(t, to.bringBack(t.Context(), first))
	require.Equal(t, 2, fetchOne(t, s).Attempt())
	s.cancel()
	require.NoError(t, await(t, s.ended))

	require.NoError(t, f.conn.DeleteConsumer(t.Context(), testStream, "c1"))
	require.ErrorIs(t, to.bringBack(t.Context(), second), ErrConsumerNotFound, "it was there a moment ago")
	ensureConsumer(t, f.conn, Consumer{Name: "c1", Subjects: []string{testSubject, routing.RedeliverySubject("c1")}})
	require.NoError(t, to.bringBack(t.Context(), second))
	require.NoError(t, to.bringBack(t.Context(), second), "a repeat is stored once")
	awaitBacklog(t, f.conn, "c1", Backlog{Pending: 1})
}

// The server sends a retry again that a bridge has had in hand for too long: then one moves it and another brings it back.
func TestARetryThatIsMovedAndBroughtBackComesBackOnce(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	to, retry := newForwarder(f.conn, testStream), f.firstRetry(t)
	first := fetchOne(t, retry)
	to.move(t.Context(), first, time.Millisecond, time.Now())
	moved := fetchOne(t, retry)
	to.move(t.Context(), moved, time.Millisecond, time.Now())
	require.NoError(t, to.bringBack(t.Context(), first))
	require.NoError(t, to.bringBack(t.Context(), moved))
	require.NoError(t, to.bringBack(t.Context(), fetchOne(t, retry)))
	awaitBacklog(t, f.conn, "c1", Backlog{Pending: 1})

	s := f.source(t)
	again := fetchOne(t, s)
	require.Empty(t, again.raw.Header.Get(headerRetry), "its next retry is another one")
	require.NoError(t, again.Retry(t.Context(), 0))
	require.NoError(t, to.bringBack(t.Context(), fetchOne(t, retry)))
	require.Equal(t, 3, fetchOne(t, s).Attempt())
}

// The stream confirms and drops what comes back to a consumer that is gone.
func TestARetryThatIsPostponedWithoutItsConsumerComesBackToTheNextOne(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	to, retry := newForwarder(f.conn, testStream), f.firstRetry(t)
	first := fetchOne(t, retry)
	_, err := to.consumers.cached(t.Context(), "c1")
	require.NoError(t, err)
	require.NoError(t, f.conn.DeleteConsumer(t.Context(), testStream, "c1"))
	require.ErrorIs(t, to.bringBack(t.Context(), first), ErrConsumerNotFound)
	to.move(t.Context(), first, time.Millisecond, time.Now())
	ensureConsumer(t, f.conn, Consumer{Name: "c1", Subjects: []string{testSubject, routing.RedeliverySubject("c1")}})
	require.NoError(t, to.bringBack(t.Context(), fetchOne(t, retry)))
	awaitBacklog(t, f.conn, "c1", Backlog{Pending: 1})
}

// firstRetry has an event wait for its second attempt, and receives what comes to the level that does not wait.
func (f *feed) firstRetry(t *testing.T) *receiver {
	t.Helper()
	f.publish(t, 1)
	s := f.source(t)
	require.NoError(t, fetchOne(t, s).Retry(t.Context(), 0))
	s.cancel()
	require.NoError(t, await(t, s.ended))
	return receive(t, NewSource(f.conn, RetryStream, levelOf(0).consumer(), types.NamespacedName{}, 2))
}

func TestADeadLetterRedrivenWithoutItsConsumerIsRedrivenAgain(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	consumer := Consumer{Name: "c1", Subjects: []string{testSubject, routing.RedeliverySubject("c1")}}
	before, err := f.conn.redeliveryConsumer(t.Context(), testStream, "c1")
	require.NoError(t, err)
	publish := func(since time.Time) *jetstream.PubAck {
		message := nats.NewMsg(routing.RedeliverySubject("c1"))
		message.Header.Set(jetstream.MsgIDHeader, "letter")
		nameFor(message, since)
		ack, err := f.conn.js.PublishMsg(t.Context(), message)
		require.NoError(t, err)
		return ack
	}
	require.NoError(t, f.conn.DeleteConsumer(t.Context(), testStream, "c1"))
	publish(before)
	ensureConsumer(t, f.conn, consumer)
	require.True(t, publish(before).Duplicate, "the stream remembers the id of what it dropped")
	after, err := f.conn.redeliveryConsumer(t.Context(), testStream, "c1")
	require.NoError(t, err)
	require.False(t, publish(after).Duplicate)
	awaitBacklog(t, f.conn, "c1", Backlog{Pending: 1})
}

func TestConcurrentCallersShareAConsumerInspection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var inspections atomic.Int64
		p := newTargetCache(func(context.Context, string) (redeliveryTarget, error) {
			n := inspections.Add(1)
			time.Sleep(100 * time.Millisecond)
			return redeliveryTarget{since: time.Unix(n, 0)}, nil
		})
		found := make(chan int64, 10)
		ask := func(how func(context.Context, string) (redeliveryTarget, error)) {
			go func() {
				at, err := how(t.Context(), "c1")
				if err == nil {
					found <- at.since.Unix()
				}
			}()
			synctest.Wait()
		}
		ask(p.refresh)
		for range 3 {
			ask(p.refresh) // one runs, which may have been answered already
		}
		require.EqualValues(t, 1, <-found)
		for range 3 {
			require.EqualValues(t, 2, <-found)
		}
		ask(p.cached)
		require.EqualValues(t, 2, <-found)
		time.Sleep(targetCacheTTL)
		ask(p.cached)
		require.EqualValues(t, 3, <-found)
		require.Empty(t, p.inspections)
	})
}
