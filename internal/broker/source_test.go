package broker

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/testing/natstest"
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
	consumer := Consumer{Name: "c1", Subjects: []string{testSubject}}
	for _, c := range change {
		c(&consumer)
	}
	ensureConsumer(t, conn, consumer)
	return &feed{Publisher: NewPublisher(conn, publisherOptions()), server: server, conn: conn}
}

func (f *feed) publish(t *testing.T, count int) {
	t.Helper()
	for range count {
		require.NoError(t, f.Publish(t.Context(), eventWithID(strconv.Itoa(f.next))))
		f.next++
	}
}

// source has a short expiry, so that an empty Fetch returns soon.
func (f *feed) source(t *testing.T) *Source {
	t.Helper()
	return quick(t, NewSource(f.conn, testStream, "c1"))
}

func quick(t *testing.T, s *Source) *Source {
	t.Helper()
	s.expires, s.heartbeat = 500*time.Millisecond, 200*time.Millisecond
	t.Cleanup(s.Close)
	return s
}

func fetch(t *testing.T, s *Source, limit int) []*Message {
	t.Helper()
	messages, err := s.Fetch(t.Context(), limit)
	require.NoError(t, err)
	require.LessOrEqual(t, len(messages), limit)
	return messages
}

// fetchOne waits for one message, however many empty fetches that takes.
func fetchOne(t *testing.T, s *Source) *Message {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if messages := fetch(t, s, 1); len(messages) == 1 {
			return messages[0]
		}
	}
	require.FailNow(t, "no message came")
	return nil
}

func id(t *testing.T, m *Message) string {
	t.Helper()
	e, err := m.Event()
	require.NoError(t, err)
	return e.ID()
}

func TestFetchReturnsWhatIsThere(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	s := f.source(t)
	f.publish(t, 5)
	awaitBacklog(t, f.conn, "c1", Backlog{Pending: 5})

	first := fetch(t, s, 3)
	require.Len(t, first, 3)
	awaitBacklog(t, f.conn, "c1", Backlog{Pending: 2, AckPending: 3})
	begin := time.Now()
	rest := fetch(t, s, 10)
	require.Len(t, rest, 2)
	require.Less(t, time.Since(begin), s.expires, "it waited for a full batch")

	for i, message := range append(first, rest...) {
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
	require.Empty(t, fetch(t, s, 10))
	require.Empty(t, fetch(t, s, 0))
}

func TestFetchWaitsForTheFirstMessage(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	s := NewSource(f.conn, testStream, "c1")
	t.Cleanup(s.Close)
	type result struct {
		messages []*Message
		err      error
		after    time.Duration
	}
	results := make(chan result, 1)
	begin := time.Now()
	go func() {
		messages, err := s.Fetch(t.Context(), 10)
		results <- result{messages, err, time.Since(begin)}
	}()
	awaitWaiting(t, f.conn, 1)
	f.publish(t, 1)
	got := await(t, results)
	require.NoError(t, got.err)
	require.Len(t, got.messages, 1)
	require.Less(t, got.after, pullExpires)
	awaitWaiting(t, f.conn, 0)
}

// awaitWaiting waits until the server remembers so many pull requests.
func awaitWaiting(t *testing.T, conn *Conn, want int) {
	t.Helper()
	require.Eventually(t, func() bool { return waiting(t, conn) == want }, patience, moment)
}

func waiting(t *testing.T, conn *Conn) int {
	t.Helper()
	handle, err := conn.js.Consumer(t.Context(), testStream, "c1")
	require.NoError(t, err)
	return handle.CachedInfo().NumWaiting
}

func TestFetchLeavesNoRequestBehind(t *testing.T) {
	t.Parallel()
	f := newFeed(t, func(c *Consumer) { c.AckWait = time.Hour })
	s := NewSource(f.conn, testStream, "c1")
	t.Cleanup(s.Close)
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := s.Fetch(ctx, 10)
			done <- err
		}()
		awaitWaiting(t, f.conn, 1)
		begin := time.Now()
		cancel()
		require.ErrorIs(t, await(t, done), context.Canceled)
		require.Less(t, time.Since(begin), time.Second)
	}
	f.publish(t, 20)
	seen := map[string]bool{}
	for len(seen) < 20 {
		for _, message := range fetch(t, s, 10) {
			seen[id(t, message)] = true
			require.NoError(t, message.Ack(t.Context()))
		}
	}
	awaitBacklog(t, f.conn, "c1", Backlog{})
}

// The AckWait is an hour: a message that a cancelled Fetch swallowed would be
// missing at the end.
func TestFetchLosesNothingToCancellation(t *testing.T) {
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
	s := f.source(t)
	seen := map[string]bool{}
	for i := 0; len(seen) < events && i < 100_000; i++ {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%20)*100*time.Microsecond)
		messages, err := s.Fetch(ctx, 7)
		cancel()
		if err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Empty(t, messages)
		}
		for _, message := range messages {
			seen[id(t, message)] = true
			require.NoError(t, message.Ack(t.Context()))
		}
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
		s := quick(t, NewSource(conn, testStream, "c1"))
		workers.Go(func() {
			for ctx.Err() == nil {
				messages, err := s.Fetch(ctx, 10)
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				for _, message := range messages {
					e, err := message.Event()
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					seen[e.ID()]++
					mu.Unlock()
					if err := message.Ack(t.Context()); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	f.publish(t, events)
	awaitBacklog(t, f.conn, "c1", Backlog{})
	stop()
	workers.Wait()
	require.Len(t, seen, events)
	for event, times := range seen {
		require.Equal(t, 1, times, "event %s", event)
	}
}

func TestFetchSaysThatTheConsumerIsGone(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	s := NewSource(f.conn, testStream, "c1")
	t.Cleanup(s.Close)
	errs := make(chan error, 1)
	go func() {
		_, err := s.Fetch(t.Context(), 10)
		errs <- err
	}()
	awaitWaiting(t, f.conn, 1)
	require.NoError(t, f.conn.DeleteConsumer(t.Context(), testStream, "c1"))
	require.ErrorIs(t, await(t, errs), ErrConsumerNotFound, "while it waits")

	_, err := s.Fetch(t.Context(), 10)
	require.ErrorIs(t, err, ErrConsumerNotFound, "before it waits")
	nowhere := NewSource(f.conn, "nowhere", "c1")
	t.Cleanup(nowhere.Close)
	_, err = nowhere.Fetch(t.Context(), 10)
	require.ErrorIs(t, err, ErrConsumerNotFound, "without the stream")

	ensureConsumer(t, f.conn, Consumer{Name: "c1", Subjects: []string{testSubject}})
	f.publish(t, 1)
	require.NoError(t, fetchOne(t, s).Ack(t.Context()), "after it came back")
}

func TestFetchReturnsAPartWhenTheConsumerIsFull(t *testing.T) {
	t.Parallel()
	f := newFeed(t, func(c *Consumer) { c.MaxAckPending = 3 })
	f.publish(t, 10)
	s := f.source(t)
	messages := fetch(t, s, 8)
	require.Len(t, messages, 3)
	require.Empty(t, fetch(t, s, 8))
	for _, message := range messages {
		require.NoError(t, message.Ack(t.Context()))
	}
	seen := 3
	for seen < 10 {
		for _, message := range fetch(t, s, 8) {
			require.Equal(t, 1, message.Attempt())
			require.NoError(t, message.Ack(t.Context()))
			seen++
		}
	}
	awaitBacklog(t, f.conn, "c1", Backlog{})
}

func TestFetchWithoutAConnection(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	s := f.source(t)
	f.server.Stop()
	_, err := s.Fetch(t.Context(), 1)
	require.ErrorIs(t, err, ErrNotConnected)
	ctx, cancel := context.WithTimeout(t.Context(), moment)
	defer cancel()
	_, err = s.Fetch(ctx, 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// The server restarts twice while events are published and fetched. Each event
// that was confirmed arrives; acknowledgements that the restarts swallowed may
// make some arrive twice.
func TestRestartsOfTheServerLoseNothing(t *testing.T) {
	t.Parallel()
	f := newFeed(t, func(c *Consumer) { c.AckWait = 2 * time.Second })
	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	var mu sync.Mutex
	seen := map[string]bool{}
	var workers sync.WaitGroup
	s := NewSource(f.conn, testStream, "c1")
	t.Cleanup(s.Close)
	workers.Go(func() {
		for ctx.Err() == nil {
			messages, _ := s.Fetch(ctx, 5)
			for _, message := range messages {
				e, err := message.Event()
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				seen[e.ID()] = true
				mu.Unlock()
				_ = message.Ack(ctx)
			}
		}
	})
	confirmed := map[string]bool{}
	publishUntil := func(enough int) {
		for i := 0; len(confirmed) < enough; i++ {
			id := strconv.Itoa(len(confirmed))
			if err := f.Publish(ctx, eventWithID(id)); err == nil {
				confirmed[id] = true
				continue
			}
			waitCtx, cancel := context.WithTimeout(ctx, patience)
			require.NoError(t, f.conn.waitConnected(waitCtx))
			cancel()
		}
	}
	for round := range 2 {
		publishUntil(round*200 + 100)
		f.server.Restart()
		publishUntil(round*200 + 200)
	}
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(seen) >= len(confirmed)
	}, patience, moment)
	awaitBacklog(t, f.conn, "c1", Backlog{})
	stop()
	workers.Wait()
	require.ElementsMatch(t, slices.Collect(maps.Keys(confirmed)), slices.Collect(maps.Keys(seen)))
}

func TestFetchNoticesAStall(t *testing.T) {
	t.Parallel()
	conn := connect(t, natstest.Start(t).URL())
	awaitConnected(t, conn)
	s := quick(t, NewSource(conn, testStream, "c1"))
	s.expires = patience
	// Somebody takes the pull request and answers nothing, as a server does that
	// has lost the consumer's leader.
	silent, err := conn.nc.SubscribeSync(s.subject)
	require.NoError(t, err)
	require.NoError(t, conn.nc.Flush())
	begin := time.Now()
	_, err = s.Fetch(t.Context(), 1)
	require.ErrorIs(t, err, ErrStalled)
	require.Less(t, time.Since(begin), patience/2)
	require.NoError(t, silent.Unsubscribe())
}

func TestCloseEndsAFetchThatWaits(t *testing.T) {
	t.Parallel()
	f := newFeed(t)
	conn := connect(t, f.server.URL())
	awaitConnected(t, conn)
	s := NewSource(conn, testStream, "c1")
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 1)
	go func() {
		_, err := s.Fetch(ctx, 10)
		errs <- err
	}()
	awaitWaiting(t, f.conn, 1)
	cancel()
	require.NoError(t, conn.Close(t.Context()))
	require.Error(t, await(t, errs))
	_, err := s.Fetch(t.Context(), 1)
	require.ErrorIs(t, err, ErrNotConnected)
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
		in.drain((*Message).handBack)
	}()
	select {
	case <-drained:
	case <-time.After(patience):
		require.Fail(t, "the drain waits for ever")
	}
}
