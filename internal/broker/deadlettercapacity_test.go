package broker

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/testing/natstest"
)

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
