package broker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/natstest"
	"github.com/rouse-run/rouse/internal/testing/never"
)

const testSubject = "kyma.shop.order.received.v1"

// feed is a consumer with a publisher for it.
type feed struct {
	*Publisher
	server *natstest.Server
	conn   *Conn
	next   int
}

func newFeed(t *testing.T, change ...func(*Consumer)) *feed {
	t.Helper()
	server, conn := start(t)
	consumer := Consumer{Name: "c1", Subjects: []string{testSubject, routing.RedeliverySubject("c1")}}
	for _, c := range change {
		c(&consumer)
	}
	ensureConsumer(t, conn, consumer)
	return &feed{Publisher: NewPublisher(conn, publisherOptions(func(o *PublisherOptions) { o.Timeout = testTimeout })), server: server, conn: conn}
}

func (f *feed) publish(t *testing.T, count int) {
	t.Helper()
	for range count {
		require.NoError(t, f.Publish(t.Context(), eventWithID(strconv.Itoa(f.next))))
		f.next++
	}
}

// subscription is whose events the consumer c1 has.
func subscription() types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: "orders"}
}

// newSource has a short expiry, so that requests end and are sent again during the test.
func newSource(conn *Conn) *Source {
	s := NewSource(conn, testStream, "c1", subscription(), 10)
	s.expires, s.heartbeat = 500*time.Millisecond, 200*time.Millisecond
	return s
}

// receiver is a source that receives in the background.
type receiver struct {
	arrived chan *Message
	ended   chan error
	cancel  context.CancelFunc
}

func receive(t *testing.T, s *Source) *receiver {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	r := &receiver{arrived: make(chan *Message, 10_000), ended: make(chan error, 1), cancel: cancel}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for { // a server that is busy or restarts may not answer, and dispatchers receive again
			if err := s.Receive(ctx, nil, func(m *Message) { r.arrived <- m }); !errors.Is(err, ErrTimeout) {
				r.ended <- err
				return
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return r
}

func (f *feed) source(t *testing.T) *receiver {
	t.Helper()
	return receive(t, newSource(f.conn))
}

func fetch(t *testing.T, r *receiver, count int) []*Message {
	t.Helper()
	messages := make([]*Message, count)
	for i := range messages {
		messages[i] = fetchOne(t, r)
	}
	return messages
}

func fetchOne(t *testing.T, r *receiver) *Message {
	t.Helper()
	select {
	case m := <-r.arrived:
		return m
	case err := <-r.ended:
		require.FailNow(t, "the source ended", "%v", err)
	case <-time.After(testTimeout):
		require.FailNow(t, "no message came")
	}
	return nil
}

func id(t *testing.T, m *Message) string {
	t.Helper()
	e, err := m.Event()
	require.NoError(t, err)
	return e.ID
}

func TestMessagesComeInOrderAndSayWhatTheyAre(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.publish(t, 5)
	awaitBacklog(t, f.conn, "c1", Backlog{Pending: 5})
	r := f.source(t)
	for i := range 5 {
		message := fetchOne(t, r)
		require.Equal(t, strconv.Itoa(i), id(t, message))
		require.Equal(t, 1, message.Attempt())
		require.Equal(t, testSubject, message.Subject())
		require.Positive(t, message.Size())
		require.Equal(t, uint64(i+1), message.Sequence())
		require.Equal(t, uint64(4-i), message.Pending())
		require.WithinDuration(t, time.Now(), message.Stored(), time.Minute)
		require.NoError(t, message.Ack(t.Context()))
	}
	awaitBacklog(t, f.conn, "c1", Backlog{})
}

func TestRequestsStandForAsLongAsNobodyPublishes(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	r := f.source(t)
	for range 5 { // requests end after half a second and are sent again
		require.Eventually(t, func() bool { return waiting(t, f.conn) > 0 }, testTimeout, moment)
		f.publish(t, 1)
		require.NoError(t, fetchOne(t, r).Ack(t.Context()))
	}
	awaitBacklog(t, f.conn, "c1", Backlog{})
}

func TestTheConsumersLimitHoldsAndIsUsedAgain(t *testing.T) {
	t.Parallel()
	f := newFeed(t, func(c *Consumer) { c.MaxAckPending = 3 })
	f.publish(t, 50)
	one, two := f.source(t), f.source(t)
	awaitBacklog(t, f.conn, "c1", Backlog{Pending: 47, AckPending: 3})
	never.Happens(t, func() bool { return len(one.arrived)+len(two.arrived) > 3 }, 10*moment, moment)
	seen := map[string]bool{}
	for len(seen) < 50 {
		var message *Message
		select {
		case message = <-one.arrived:
		case message = <-two.arrived:
		case <-time.After(testTimeout):
			require.FailNow(t, "no message came")
		}
		require.Equal(t, 1, message.Attempt())
		seen[id(t, message)] = true
		require.NoError(t, message.Ack(t.Context()))
	}
	awaitBacklog(t, f.conn, "c1", Backlog{})
}

// awaitWaiting waits until the server remembers so many pull requests.
func awaitWaiting(t *testing.T, conn *Conn, want int) {
	t.Helper()
	require.Eventually(t, func() bool { return waiting(t, conn) == want }, testTimeout, moment)
}

// waiting is -1 while the server cannot say, as one of a cluster that elects a leader.
func waiting(t *testing.T, conn *Conn) int {
	t.Helper()
	handle, err := conn.js.Consumer(t.Context(), testStream, "c1")
	if err != nil {
		return -1
	}
	return handle.CachedInfo().NumWaiting
}

func TestAStoppedSourceLeavesNoPullRequest(t *testing.T) {
	t.Parallel()
	f := newFeed(t, func(c *Consumer) { c.AckWait = time.Hour })
	s := NewSource(f.conn, testStream, "c1", subscription(), 10)
	for range 20 {
		r := receive(t, s)
		require.Eventually(t, func() bool { return waiting(t, f.conn) > 0 }, testTimeout, moment)
		r.cancel()
		require.NoError(t, await(t, r.ended))
	}
	awaitWaiting(t, f.conn, 0)
}

// The AckWait is an hour: a message that a source swallowed when it was stopped would
// be missing at the end.
func TestNothingIsLostWhenASourceIsStopped(t *testing.T) {
	t.Parallel()
	f := newFeed(t, func(c *Consumer) { c.AckWait = time.Hour })
	const events = 300
	published := make(chan error, 1)
	go func() {
		for i := range events {
			if err := f.Publish(t.Context(), eventWithID(strconv.Itoa(i))); err != nil {
				published <- err
				return
			}
		}
		published <- nil
	}()
	s := newSource(f.conn)
	seen := map[string]bool{}
	for i := 0; len(seen) < events && i < 100_000; i++ {
		stop := make(chan struct{})
		timer := time.AfterFunc(time.Duration(i%20)*100*time.Microsecond, func() { close(stop) })
		require.NoError(t, s.Receive(t.Context(), stop, func(m *Message) {
			seen[id(t, m)] = true
			require.NoError(t, m.Ack(t.Context()))
		}))
		timer.Stop()
	}
	require.NoError(t, await(t, published))
	require.Len(t, seen, events)
	awaitBacklog(t, f.conn, "c1", Backlog{})
}

func TestSourcesShareAConsumer(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	const events = 500
	var mu sync.Mutex
	seen := map[string]int{}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var workers sync.WaitGroup
	for range 3 {
		conn := connect(t, f.server.URL())
		awaitConnected(t, conn)
		s := newSource(conn)
		workers.Go(func() {
			err := s.Receive(ctx, nil, func(m *Message) {
				e, err := m.Event()
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				seen[e.ID]++
				mu.Unlock()
				if err := m.Ack(t.Context()); err != nil {
					t.Error(err)
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	f.publish(t, events)
	require.Eventually(t, func() bool { // a consumer counts an event a moment after it is stored
		mu.Lock()
		defer mu.Unlock()
		return len(seen) == events
	}, testTimeout, moment)
	awaitBacklog(t, f.conn, "c1", Backlog{})
	stop()
	workers.Wait()
	require.Len(t, seen, events)
	for event, times := range seen {
		require.Equal(t, 1, times, "event %s", event)
	}
}

func TestAWildcardLeavesWhatComesBackToOthers(t *testing.T) {
	t.Parallel()
	f := newFeed(t, func(c *Consumer) { c.Subjects = []string{"kyma.>"} })
	r := f.source(t)
	f.server.Publish(t, routing.RedeliverySubject("c2"), []byte("an event of another client"))
	f.publish(t, 1)
	message := fetchOne(t, r)
	require.Equal(t, "0", id(t, message))
	require.NoError(t, message.Ack(t.Context()))
	awaitBacklog(t, f.conn, "c1", Backlog{})
}

func TestASourceReportsADeletedConsumer(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	r := f.source(t)
	require.Eventually(t, func() bool { return waiting(t, f.conn) > 0 }, testTimeout, moment)
	require.NoError(t, f.conn.DeleteConsumer(t.Context(), testStream, "c1"))
	require.ErrorIs(t, await(t, r.ended), ErrConsumerNotFound, "while it waits")
	require.ErrorIs(t, await(t, f.source(t).ended), ErrConsumerNotFound, "before it waits")
	nowhere := NewSource(f.conn, "nowhere", "c1", subscription(), 10)
	require.ErrorIs(t, await(t, receive(t, nowhere).ended), ErrConsumerNotFound, "without the stream")

	ensureConsumer(t, f.conn, Consumer{Name: "c1", Subjects: []string{testSubject}})
	f.publish(t, 1)
	require.NoError(t, fetchOne(t, f.source(t)).Ack(t.Context()), "after it came back")
}

func TestASourceWithoutAConnection(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	f.server.Stop()
	require.Eventually(t, func() bool { return !f.conn.Connected() }, testTimeout, moment)
	require.ErrorIs(t, await(t, f.source(t).ended), ErrNotConnected)
	stop := make(chan struct{})
	close(stop)
	require.NoError(t, newSource(f.conn).Receive(t.Context(), stop, nil), "it was stopped")
}

// The server restarts twice while events are published and received. Each event
// that was confirmed arrives; acknowledgements that the restarts swallowed may
// make some arrive twice.
func TestRestartsOfTheServerLoseNothing(t *testing.T) {
	t.Parallel()
	f := newFeed(t, func(c *Consumer) { c.AckWait = 2 * time.Second })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	seen := collect(ctx, t, newSource(f.conn))
	confirmed := map[string]bool{}
	publishUntil := func(enough int) {
		for i := 0; len(confirmed) < enough; i++ {
			id := strconv.Itoa(len(confirmed))
			if err := f.Publish(ctx, eventWithID(id)); err == nil {
				confirmed[id] = true
				continue
			}
			waitCtx, cancel := context.WithTimeout(ctx, testTimeout)
			require.NoError(t, f.conn.waitConnected(waitCtx))
			cancel()
		}
	}
	for round := range 2 {
		publishUntil(round*200 + 100)
		f.server.Restart()
		publishUntil(round*200 + 200)
	}
	require.Eventually(t, func() bool { return len(seen()) >= len(confirmed) }, testTimeout, moment)
	awaitBacklog(t, f.conn, "c1", Backlog{})
	require.ElementsMatch(t, slices.Collect(maps.Keys(confirmed)), slices.Collect(maps.Keys(seen())))
}

// collect receives and acks until ctx ends, whatever happens to the server. It returns
// what came so far.
func collect(ctx context.Context, t *testing.T, s *Source) (seen func() map[string]bool) {
	t.Helper()
	var mu sync.Mutex
	ids := map[string]bool{}
	ctx, cancel := context.WithCancel(ctx)
	var worker sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		worker.Wait()
	})
	worker.Go(func() {
		for ctx.Err() == nil {
			_ = s.Receive(ctx, nil, func(m *Message) {
				e, err := m.Event()
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				ids[e.ID] = true
				mu.Unlock()
				_ = m.Ack(ctx)
			})
		}
	})
	return func() map[string]bool {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(ids)
	}
}

func TestASourceNoticesAStall(t *testing.T) {
	t.Parallel()
	conn := connect(t, natstest.Start(t).URL())
	awaitConnected(t, conn)
	s := newSource(conn)
	s.stallTimeout = 500 * time.Millisecond
	// Somebody takes the pull request and answers nothing, as a server does that
	// has lost the consumer's leader.
	silent, err := conn.nc.SubscribeSync(s.subject)
	require.NoError(t, err)
	require.NoError(t, conn.nc.Flush())
	require.ErrorIs(t, await(t, receive(t, s).ended), ErrStalled)
	require.NoError(t, silent.Unsubscribe())
}

func TestASourceEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	conn := connect(t, f.server.URL())
	awaitConnected(t, conn)
	r := receive(t, newSource(conn))
	require.Eventually(t, func() bool { return waiting(t, f.conn) > 0 }, testTimeout, moment)
	require.NoError(t, conn.Close(t.Context()))
	require.ErrorIs(t, await(t, r.ended), ErrNotConnected)
}

func TestADrainEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	in, err := openInbox(conn, 1)
	require.NoError(t, err)
	conn.nc.Close()
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		in.drain()
	}()
	await(t, drained)
}

// limitedBudget is a budget of so many bytes.
type limitedBudget struct {
	size       int64
	used, peak atomic.Int64
	freed      chan struct{}
}

func newLimitedBudget(size int64) *limitedBudget {
	return &limitedBudget{size: size, freed: make(chan struct{}, 1)}
}

func (n *limitedBudget) Acquire(least, most int64) int64 {
	bytes := min(most, n.size-n.used.Load())
	if bytes < least {
		return 0
	}
	n.Overdraw(bytes)
	return bytes
}

func (n *limitedBudget) Overdraw(bytes int64) bool {
	n.peak.Store(max(n.used.Add(bytes), n.peak.Load()))
	return true
}

func (n *limitedBudget) Release(bytes int64) {
	n.used.Add(-bytes)
	select {
	case n.freed <- struct{}{}:
	default:
	}
}

func (n *limitedBudget) Freed() <-chan struct{} { return n.freed }

func (f *feed) publishLarge(t *testing.T, count, size int) {
	t.Helper()
	for range count {
		e := &cloudevent.Event{ID: strconv.Itoa(f.next), Source: "shop", Type: "order.received.v1", DataContentType: "text/plain"}
		e.Data = []byte(strings.Repeat("x", size))
		require.NoError(t, f.Publish(t.Context(), e))
		f.next++
	}
}

// 200 events of 60 KiB, of a Subscription that asks for as many as there are and settles none.
func TestASourceStaysWithinItsMemoryBudget(t *testing.T) {
	t.Parallel()
	f := newFeed(t, func(c *Consumer) { c.MaxAckPending = 1_000_000 })
	f.publishLarge(t, 200, 60<<10)
	budget := newLimitedBudget(4 << 20)
	r := receive(t, NewSource(f.conn, testStream, "c1", subscription(), 1_000_000).Within(budget))
	fits := int(budget.size/MessageMemory(60<<10)) - 1 // one may be asked for as if it were as large as can be
	held := fetch(t, r, fits/2)
	never.Happens(t, func() bool { return len(r.arrived) > fits }, 300*time.Millisecond, 10*time.Millisecond)
	for range 200 - len(held) {
		m := held[0]
		require.NoError(t, m.Ack(t.Context()))
		m.Release()
		held = append(held[1:], fetchOne(t, r))
	}
	require.LessOrEqual(t, budget.peak.Load(), budget.size)
	for _, m := range held {
		require.NoError(t, m.Ack(t.Context()))
		m.Release()
	}
	r.cancel()
	require.NoError(t, <-r.ended)
	require.Zero(t, budget.used.Load(), "all is given back")
}

func TestEventsOfAnySizeFitABudgetThatIsBarelyEnough(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	for i, size := range []int{1, 100 << 10, 10, 600 << 10, 1, 1, 300 << 10, 20 << 10} {
		f.publishLarge(t, 1, size)
		require.Equal(t, i+1, f.next)
	}
	budget := newLimitedBudget(MessageMemory(1<<20 + sizeSlack))
	r := receive(t, NewSource(f.conn, testStream, "c1", subscription(), 10).Within(budget))
	for i := range f.next {
		m := fetchOne(t, r)
		require.Equal(t, strconv.Itoa(i), id(t, m))
		require.NoError(t, m.Ack(t.Context()))
		m.Release()
	}
	require.LessOrEqual(t, budget.peak.Load(), budget.size)
}

func TestAnIdleSourceReservesLittleMemory(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	budget := newLimitedBudget(64 << 20)
	r := receive(t, newSource(f.conn).Within(budget))
	f.publish(t, 500)
	for range 500 {
		m := fetchOne(t, r)
		require.NoError(t, m.Ack(t.Context()))
		m.Release()
	}
	require.Eventually(t, func() bool { return budget.used.Load() <= IdleMemory }, testTimeout, 10*time.Millisecond)
}

func TestASourceAsksForMoreWhenHalfOfWhatItHoldsAheadIsFree(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ deliveries, ahead, held, want int }{
		"at first, for all":                             {10, 64, 0, 74},
		"not while it holds more than half of it ahead": {10, 64, 43, 0},
		"then for what is free":                         {10, 64, 42, 32},
		"a slow sink's deliveries are replaced by ones": {10, 1, 10, 1},
		"and never exceed what may be held":             {10, 1, 11, 0},
		"nothing ahead":                                 {10, 0, 9, 1},
		"after the limit was lowered":                   {5, 8, 30, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, askFor(tc.deliveries, tc.ahead, tc.held))
		})
	}
}

func TestWhatIsHeldAheadFollowsThePaceOfTheSink(t *testing.T) {
	t.Parallel()
	h := newHolder(func() (deliveries, ahead int) { return 10, 128 })
	now := h.since
	step := func(after time.Duration, released int64) int {
		now = now.Add(after)
		h.released.Add(released)
		h.measure(now)
		return h.pace
	}
	require.Equal(t, 0, step(pacePeriod/2, 100), "too early to say")
	require.Equal(t, 100, step(pacePeriod/2, 0))
	require.Equal(t, 200, step(2*pacePeriod, 400))
	require.Equal(t, 100, step(pacePeriod, 0), "a pause in a burst")
	require.Equal(t, 50, step(pacePeriod, 30))
	require.Equal(t, 1, step(time.Second, 100))
}

func TestAMessageIsHeldUntilItIsFreedOnce(t *testing.T) {
	t.Parallel()
	h := newHolder(func() (deliveries, ahead int) { return 1, 0 })
	m := &Message{}
	h.add(m)
	require.Zero(t, h.request(5))
	h.free(m)
	<-h.freed
	require.Equal(t, 1, h.request(5))
	h.free(m)
	require.Equal(t, 1, h.request(5), "it was detached, and then released")
}
