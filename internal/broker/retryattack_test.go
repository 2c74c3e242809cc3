package broker

import (
	"maps"
	"strconv"
	"testing"
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
	const most = 3000
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
