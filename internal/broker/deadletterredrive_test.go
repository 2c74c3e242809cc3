package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

func TestARedrivenEventIsTheOriginalToTheByte(t *testing.T) {
	t.Parallel()
	for name, body := range map[string][]byte{
		"a structured event":                  structuredEvent("e"),
		"an event that has such an extension": []byte(`{"specversion":"1.0","id":"e","rousereason":"mine","data":1}`),
		"no event at all":                     {0, 1, 2, '{', 255},
		"nothing":                             nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, conn := startWithConsumers(t, orders)
			deadLetter := DeadLetter{Subscription: orders, Reason: reasonRefused, Attempts: 5, Status: 500, BodyExcerpt: "excerpt"}
			require.NoError(t, conn.AddDeadLetter(t.Context(), deadLetter, given(conn, 1, body)))

			done, err := conn.Redrive(t.Context(), testStream, selectionOf(orders, ""))
			require.NoError(t, err)
			require.Equal(t, Redriven{Redriven: 1}, done)
			require.Empty(t, counts(t, conn))
			events := takeAll(t, conn, orders)
			require.Len(t, events, 1)
			require.Equal(t, string(body), string(events[0].Data()))
			header := events[0].Headers()
			require.NotEmpty(t, header.Get(jetstream.MsgIDHeader))
			require.NotEmpty(t, header.Get(HeaderRedriven))
			for _, name := range []string{jetstream.MsgIDHeader, HeaderRedriven, jetstream.ExpectedStreamHeader} {
				header.Del(name)
			}
			require.Equal(t, nats.Header{
				"ce-id": {"h"}, "Traceparent": {"00-1"},
				HeaderAttempts: {"0"}, HeaderSubject: {"kyma.shop.order.v1"},
				HeaderStored: {"2023-11-14T22:13:20.000000001Z"},
			}, header)
		})
	}
}

func TestOnlyWhatIsSelectedIsRedriven(t *testing.T) {
	t.Parallel()
	_, conn := startWithConsumers(t, orders, parcels, ledgers)
	addDeadLetters(t, conn, orders, reasonRefused, 1, 3)
	addDeadLetters(t, conn, orders, reasonExhausted, 4, 2)
	addDeadLetters(t, conn, parcels, reasonRefused, 1, 2)
	addDeadLetters(t, conn, ledgers, reasonRefused, 1, 4)
	redrive := func(s DeadLetterSelection) Redriven {
		done, err := conn.Redrive(t.Context(), testStream, s)
		require.NoError(t, err)
		return done
	}

	require.Equal(t, Redriven{Redriven: 1, Remaining: 10}, redrive(DeadLetterSelection{Sequence: 2}))
	require.Equal(t, Redriven{Redriven: 2, Remaining: 2}, redrive(selectionOf(orders, reasonExhausted)))
	require.Equal(t, Redriven{Remaining: 2}, redrive(selectionOf(orders, reasonExhausted)))
	require.Len(t, takeAll(t, conn, orders), 3)
	require.Equal(t, Redriven{Redriven: 4}, redrive(DeadLetterSelection{Namespace: "shop"}))
	require.Len(t, takeAll(t, conn, orders), 2)
	require.Len(t, takeAll(t, conn, parcels), 2)
	require.Equal(t, Redriven{Redriven: 4}, redrive(DeadLetterSelection{}))
	require.Len(t, takeAll(t, conn, ledgers), 4)

	_, err := conn.Redrive(t.Context(), testStream, DeadLetterSelection{Sequence: 2})
	require.ErrorIs(t, err, ErrDeadLetterNotFound)
}

func TestADeadLetterIsRedrivenWithOtherData(t *testing.T) {
	t.Parallel()
	_, conn := startWithConsumers(t, orders)
	body := []byte(`{"specversion":"1.0","id":"e","source":"shop","type":"order.v1","tenant":"a","data":{"n":1}}`)
	for i, stored := range [][]byte{body, {0, 1, 2}, []byte(`{"specversion":"1.0","id":"e","source":"shop","type":"order.v1","data_base64":"AAE="}`)} {
		require.NoError(t, conn.AddDeadLetter(t.Context(), DeadLetter{Subscription: orders, Reason: reasonRefused}, given(conn, uint64(i+1), stored)))
	}
	for sequence := range uint64(2) {
		_, err := conn.RedriveEdited(t.Context(), testStream, DeadLetterSelection{Namespace: "shop", Sequence: sequence + 2}, []byte(`{"n":2}`), nil)
		require.ErrorIs(t, err, failure.ErrDataNotEditable)
	}
	_, err := conn.RedriveEdited(t.Context(), testStream, DeadLetterSelection{Sequence: 1}, []byte(`{`), nil)
	require.ErrorIs(t, err, failure.ErrDataNotEditable)
	require.Empty(t, takeAll(t, conn, orders), "what cannot be edited stays a dead letter")

	done, err := conn.RedriveEdited(t.Context(), testStream, DeadLetterSelection{Namespace: orders.Namespace, Sequence: 1}, []byte(`{"n":2.50}`), nil)
	require.NoError(t, err)
	require.Equal(t, Redriven{Redriven: 1, Remaining: 2}, done)
	events := takeAll(t, conn, orders)
	require.Len(t, events, 1)
	ev, err := decode(events[0].Headers(), events[0].Data())
	require.NoError(t, err)
	require.Equal(t, `{"n":2.50}`, string(ev.Data))
	require.Equal(t, "a", ev.Extension("tenant"))
	require.Equal(t, "e", ev.ID)
}

func TestRedriveWithoutAConsumerLosesNothing(t *testing.T) {
	t.Parallel()
	_, conn := startWithConsumers(t, orders)
	addDeadLetters(t, conn, orders, reasonRefused, 1, 2)
	addDeadLetters(t, conn, parcels, reasonRefused, 1, 300)
	name := routing.ConsumerName(ledgers.Namespace, ledgers.Name)
	ensureConsumer(t, conn, Consumer{Name: name, Subjects: []string{"kyma.shop.order.v1"}}) // as before there were redeliveries
	addDeadLetters(t, conn, ledgers, reasonRefused, 1, 1)

	done, err := conn.Redrive(t.Context(), testStream, selectionOf(parcels, ""))
	require.ErrorIs(t, err, ErrConsumerNotFound)
	require.Equal(t, uint64(300), done.Failed)
	require.Equal(t, uint64(300), done.Remaining)
	_, err = conn.Redrive(t.Context(), testStream, DeadLetterSelection{Sequence: 303})
	require.ErrorIs(t, err, ErrConsumerNotFound)
	require.ErrorContains(t, err, "takes no redeliveries yet")

	_, err = conn.Redrive(t.Context(), testStream, selectionOf(types.NamespacedName{Namespace: "shop", Name: "unknown"}, ""))
	require.ErrorIs(t, err, ErrConsumerNotFound, "there is nothing to redrive, and no consumer to redrive it to")

	done, err = conn.Redrive(t.Context(), testStream, DeadLetterSelection{})
	require.NoError(t, err, "the others go on")
	require.Equal(t, uint64(2), done.Redriven)
	require.Equal(t, uint64(301), done.Failed)
	require.Equal(t, uint64(301), done.Remaining)
	require.Len(t, done.Problems, 2)
	require.Contains(t, done.Problems[1], "shop/parcels.v1: the Subscription has no consumer")
	require.Len(t, takeAll(t, conn, orders), 2)
	require.Equal(t, map[types.NamespacedName]uint64{parcels: 300, ledgers: 1}, counts(t, conn))

	ensureRedeliveryConsumer(t, conn, parcels)
	done, err = conn.Redrive(t.Context(), testStream, selectionOf(parcels, ""))
	require.NoError(t, err)
	require.Equal(t, Redriven{Redriven: 300}, done)
	require.Len(t, takeAll(t, conn, parcels), 300)
}

func TestARedriveThatDiedAfterPublishingRepeatsNothing(t *testing.T) {
	t.Parallel()
	_, conn := startWithConsumers(t, orders)
	addDeadLetters(t, conn, orders, reasonRefused, 1, 5)
	since, err := conn.redeliveryConsumer(t.Context(), testStream, routing.ConsumerName(orders.Namespace, orders.Name))
	require.NoError(t, err)
	stream, err := conn.js.Stream(t.Context(), DeadLetterStream)
	require.NoError(t, err)
	for sequence := uint64(1); sequence <= 3; sequence++ { // published, and killed before the dead letters were deleted
		raw, err := stream.GetMsg(t.Context(), sequence)
		require.NoError(t, err)
		event := redrivingOf(raw).event
		nameFor(event, since)
		_, err = conn.js.PublishMsg(t.Context(), event)
		require.NoError(t, err)
	}
	require.Len(t, takeAll(t, conn, orders), 3)

	done, err := conn.Redrive(t.Context(), testStream, selectionOf(orders, ""))
	require.NoError(t, err)
	require.Equal(t, Redriven{Redriven: 5}, done)
	require.Len(t, takeAll(t, conn, orders), 2)
	require.Empty(t, counts(t, conn))
}

func TestConcurrentRedrivesAndPublishesLoseNoDeadLetter(t *testing.T) {
	t.Parallel()
	const deadLetters, late, published = 5000, 200, 500
	server, conn := startWithConsumers(t, orders)
	other := connect(t, server.URL())
	awaitConnected(t, other)
	addDeadLetters(t, conn, orders, reasonRefused, 1, deadLetters)

	var wg sync.WaitGroup
	var mu sync.Mutex
	var redriven uint64
	for _, c := range []*Conn{conn, other} {
		wg.Go(func() {
			for again := true; again && t.Context().Err() == nil; { // a busy server answers late, and the caller asks once more
				done, err := c.Redrive(t.Context(), testStream, selectionOf(orders, ""))
				mu.Lock()
				redriven += done.Redriven
				mu.Unlock()
				if again = errors.Is(err, ErrTimeout); !again && err != nil || done.Failed > 0 {
					t.Errorf("redrive: %+v, %v", done, err)
				}
			}
		})
	}
	wg.Go(func() {
		for i := range published {
			if _, err := other.js.Publish(t.Context(), "kyma.shop.order.v1", structuredEvent("p"+strconv.Itoa(i))); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	require.Equal(t, uint64(deadLetters), redriven, "each dead letter is counted once")
	require.Empty(t, counts(t, conn))

	// New dead letters wait for a redrive of their own.
	addDeadLetters(t, conn, orders, reasonExhausted, deadLetters+1, late)
	ids := map[string]int{}
	for _, message := range takeAll(t, conn, orders) {
		ids[storedDeadLetterOf(&jetstream.RawStreamMsg{Data: message.Data()}).ID]++
	}
	for i := range deadLetters {
		require.Equal(t, 1, ids[strconv.Itoa(i+1)], "event %d", i+1)
	}
	require.Len(t, ids, deadLetters+published)
	require.Equal(t, map[types.NamespacedName]uint64{orders: late}, counts(t, conn))
}

func TestARedriveStopsWithItsContextAndLeavesNothingHalfDone(t *testing.T) {
	t.Parallel()
	const deadLetters = 2000
	_, conn := startWithConsumers(t, orders)
	addDeadLetters(t, conn, orders, reasonRefused, 1, deadLetters)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // as soon as something is redriven
		defer cancel()
		for ctx.Err() == nil {
			backlog, err := conn.Backlog(ctx, testStream, routing.ConsumerName(orders.Namespace, orders.Name))
			if err != nil || backlog.Total() > 0 {
				return
			}
			time.Sleep(time.Millisecond) // leaves the server to the redrive
		}
	}()
	done, err := conn.Redrive(ctx, testStream, selectionOf(orders, ""))
	cancel()
	if err != nil { // otherwise it was faster
		require.ErrorIs(t, err, context.Canceled)
	}
	require.Equal(t, uint64(deadLetters), done.Redriven+done.Remaining)
	require.Zero(t, done.Failed)
	require.Len(t, takeAll(t, conn, orders), int(done.Redriven))

	rest, err := conn.Redrive(t.Context(), testStream, selectionOf(orders, ""))
	require.NoError(t, err)
	require.Equal(t, Redriven{Redriven: done.Remaining}, rest)
	require.Len(t, takeAll(t, conn, orders), int(done.Remaining))
}

func TestRedriveKeepsDeadLettersWhileTheStreamIsFull(t *testing.T) {
	t.Parallel()
	_, conn := startWithConsumers(t, orders)
	addDeadLetters(t, conn, orders, reasonRefused, 1, 600)
	options := testStreams()
	options.MaxMsgsPerSubject = 100
	require.NoError(t, conn.EnsureStreams(t.Context(), options))

	redriven, remaining := redriveUntilFull(t, conn)
	require.Equal(t, uint64(100), redriven)
	require.Equal(t, uint64(500), remaining)
	require.Len(t, takeAll(t, conn, orders), 100)
	redriven, _ = redriveUntilFull(t, conn)
	require.Equal(t, uint64(100), redriven)
}

// redriveUntilFull asks again while a busy server does not answer in time.
func redriveUntilFull(t *testing.T, conn *Conn) (redriven, remaining uint64) {
	t.Helper()
	require.Eventually(t, func() bool {
		done, err := conn.Redrive(t.Context(), testStream, selectionOf(orders, ""))
		redriven, remaining = redriven+done.Redriven, done.Remaining
		return errors.Is(err, ErrStorageFull)
	}, 3*testTimeout, moment)
	return redriven, remaining
}

func TestSubjectMatches(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		filter, subject string
		want            bool
	}{
		{"kyma.a.b", "kyma.a.b", true},
		{"kyma.a.c", "kyma.a.b", false},
		{"kyma.*.b", "kyma.a.b", true},
		{"kyma.*.*", "kyma.a.b", true},
		{"kyma.*", "kyma.a.b", false},
		{"kyma.a.b.*", "kyma.a.b", false},
		{"kyma.>", "kyma.a.b", true},
		{">", "kyma.a.b", true},
		{"kyma.a.b.>", "kyma.a.b", false},
	} {
		require.Equal(t, tc.want, subjectMatches(tc.filter, tc.subject), "%s %s", tc.filter, tc.subject)
	}
}

// crowded is a server whose stream of dead letters is small.
func crowded(t *testing.T, bytes int64, options ...natstest.Option) (*natstest.Server, *Conn) {
	t.Helper()
	server := natstest.Start(t, append(options, natstest.WithMaxPayload(64<<10))...)
	conn := connect(t, server.URL())
	awaitConnected(t, conn)
	streams := testStreams()
	streams.DeadLetterMaxBytes = bytes
	require.NoError(t, conn.EnsureStreams(t.Context(), streams))
	return server, conn
}

// floodDeadLetters adds dead letters of the Subscription, with so many bytes of data, some at a time.
func floodDeadLetters(t *testing.T, conn *Conn, subscription types.NamespacedName, from, count, size int) {
	t.Helper()
	var adding errgroup.Group
	adding.SetLimit(8)
	for i := from; i < from+count; i++ {
		adding.Go(func() error {
			message := given(conn, uint64(i), []byte(fmt.Sprintf(`{"specversion":"1.0","id":"%d","source":"s","type":"t","data":"%s"}`,
				i, strings.Repeat("x", size))))
			message.metadata.Consumer = subscription.String()
			return conn.AddDeadLetter(t.Context(), DeadLetter{Subscription: subscription, Reason: reasonRefused}, message)
		})
	}
	require.NoError(t, adding.Wait())
}

// keptIDs are those of the dead letters that are kept for a Subscription, in their order.
func keptIDs(t *testing.T, conn *Conn, subscription types.NamespacedName) []string {
	t.Helper()
	page, err := conn.ListDeadLetters(t.Context(), DeadLetterQuery{DeadLetterSelection: selectionOf(subscription, ""), Limit: 10_000})
	require.NoError(t, err)
	require.Zero(t, page.Next)
	var all []string
	for _, deadLetter := range page.DeadLetters {
		all = append(all, deadLetter.ID)
	}
	return all
}

func TestAFloodOfDeadLettersEvictsOnlyThoseOfItsNamespace(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"of many small ones": 10, "of few large ones": 50_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, conn := crowded(t, 1<<20)
			var mu sync.Mutex
			dropped := map[string]uint64{}
			conn.OnDeadLettersDropped(func(namespace string, deadLetters uint64) {
				mu.Lock()
				defer mu.Unlock()
				dropped[namespace] += deadLetters
			})
			floodDeadLetters(t, conn, ledgers, 1, 20, 500)
			before := keptIDs(t, conn, ledgers)
			count := 3 << 20 / (size + 1000)
			floodDeadLetters(t, conn, orders, 1, count, size)
			require.Equal(t, before, keptIDs(t, conn, ledgers), "each loses only its own")
			floodDeadLetters(t, conn, ledgers, 21, 20, 500)
			require.Len(t, keptIDs(t, conn, ledgers), 40, "a namespace that holds little keeps all")

			kept := keptIDs(t, conn, orders)
			require.Contains(t, kept, strconv.Itoa(count), "the newest are kept")
			require.NotContains(t, kept, "1", "the oldest went")
			require.Equal(t, map[string]uint64{"shop": uint64(count - len(kept))}, dropped, "each that went is counted")
			named, err := conn.DroppedDeadLetters(t.Context())
			require.NoError(t, err)
			require.Equal(t, map[types.NamespacedName]bool{orders: true}, named)
			require.LessOrEqual(t, streamInfo(t, conn, DeadLetterStream).State.Bytes, uint64(1<<20))
		})
	}
}

func TestConcurrentBridgesDropDeadLettersOfTheLargestNamespaces(t *testing.T) {
	t.Parallel()
	server, one := crowded(t, 1<<20)
	two := connect(t, server.URL())
	awaitConnected(t, two)
	floodDeadLetters(t, one, ledgers, 1, 20, 500)
	var flooding sync.WaitGroup
	flooding.Go(func() { floodDeadLetters(t, one, orders, 1, 800, 2000) })
	flooding.Go(func() { floodDeadLetters(t, two, parcels, 1, 800, 2000) })
	flooding.Wait()
	require.Len(t, keptIDs(t, one, ledgers), 20)
	require.NotEmpty(t, keptIDs(t, one, orders))
	require.NotEmpty(t, keptIDs(t, one, parcels))
	notes, err := one.countBySubscription(t.Context(), DeadLetterStream, droppedPrefix, droppedPrefix+".>")
	require.NoError(t, err)
	require.NotContains(t, notes, ledgers)
	for subscription, count := range notes {
		require.LessOrEqual(t, count, uint64(2), "each bridge leaves one of %s", subscription)
	}
}

func TestDeadLetterSizesMatchTheServers(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	floodDeadLetters(t, conn, orders, 1, 300, 10)
	floodDeadLetters(t, conn, ledgers, 1, 3, 500_000)
	_, err := conn.Purge(t.Context(), DeadLetterSelection{Sequence: 7})
	require.NoError(t, err)
	bytes, count := int64(0), 0
	require.NoError(t, conn.readStored(t.Context(), DeadLetterStream, DeadLetterSelection{}.filter(), 0, func(m storedMessage) bool {
		bytes += m.size
		count++
		return true
	}))
	require.Equal(t, 302, count)
	require.EqualValues(t, streamInfo(t, conn, DeadLetterStream).State.Bytes, bytes)
	require.NoError(t, conn.readStored(t.Context(), DeadLetterStream, "rouse.deadletter.nobody.>", 0, func(storedMessage) bool {
		require.Fail(t, "there is none")
		return false
	}))
}

func TestAStreamThatCannotHoldOneDeadLetterIsRefused(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, natstest.WithMaxPayload(64<<10))
	conn := connect(t, server.URL())
	awaitConnected(t, conn)
	streams := testStreams()
	streams.DeadLetterMaxBytes = 64 << 10
	require.ErrorContains(t, conn.EnsureStreams(t.Context(), streams),
		"--stream-dead-letter-max-bytes (65536) is less than one dead letter may need, which is 66560 by the server's max_payload")
	streams.DeadLetterMaxBytes = 64<<10 + deadLetterOverhead
	require.NoError(t, conn.EnsureStreams(t.Context(), streams))
	for i := range 3 {
		floodDeadLetters(t, conn, orders, i, 1, 60<<10)
		require.Equal(t, []string{strconv.Itoa(i)}, keptIDs(t, conn, orders))
	}
}

func TestAStreamOfAnEarlierVersionStopsDroppingTheOldest(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn := connect(t, server.URL())
	awaitConnected(t, conn)
	earlier := deadLetterStream(testStreams())
	earlier.Discard, earlier.Subjects = 0, []string{"rouse.deadletter.>"}
	_, err := conn.js.CreateStream(t.Context(), earlier)
	require.NoError(t, err)
	floodDeadLetters(t, conn, orders, 1, 3, 10)
	require.NoError(t, conn.EnsureStreams(t.Context(), testStreams()))
	info := streamInfo(t, conn, DeadLetterStream)
	require.Equal(t, deadLetterStream(testStreams()).Discard, info.Config.Discard)
	require.EqualValues(t, 3, info.State.Msgs, "what it holds is kept")
}

func TestCutsOfTakesFromTheLargestHolderFirst(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		held   map[string]int64
		excess int64
		want   map[string]int64
	}{
		"no holder":                    {nil, 10, map[string]int64{}},
		"one":                          {map[string]int64{"a": 100}, 10, map[string]int64{"a": 10}},
		"the largest alone":            {map[string]int64{"a": 100, "b": 50}, 50, map[string]int64{"a": 50}},
		"down to the next, then both":  {map[string]int64{"a": 100, "b": 50, "c": 10}, 70, map[string]int64{"a": 60, "b": 10}},
		"equals":                       {map[string]int64{"a": 50, "b": 50, "c": 49}, 20, map[string]int64{"a": 7, "b": 7, "c": 6}},
		"more than there is":           {map[string]int64{"a": 5, "b": 3}, 100, map[string]int64{"a": 5, "b": 3}},
		"many small ones lose nothing": {map[string]int64{"a": 1000, "b": 1, "c": 1, "d": 1}, 900, map[string]int64{"a": 900}},
		"what does not divide":         {map[string]int64{"a": 10, "b": 10}, 5, map[string]int64{"a": 3, "b": 3}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, cutsOf(tc.held, tc.excess))
		})
	}
}
