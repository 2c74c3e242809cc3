package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

// together publishes events of several callers in one round.
func together(t *testing.T, p *Publisher, events ...*cloudevent.Event) []error {
	t.Helper()
	publications := make([]*publication, len(events))
	for i, e := range events {
		message, err := encode(e)
		require.NoError(t, err)
		key := e.Publisher
		if key == "" {
			key = message.Subject
		}
		publications[i] = newPublication(key, []*nats.Msg{message}, time.Now().Add(p.options.Timeout))
	}
	r := p.rounds
	r.mu.Lock()
	for _, publication := range publications {
		require.True(t, p.reserve(1, publication.bytes))
		if r.spoilers.has(publication.key, time.Now()) {
			r.apart.Push(publication.key, publication)
		} else {
			r.queue = append(r.queue, publication)
		}
	}
	r.pace, r.retry = pace{}, time.Time{} // tries a batch first
	r.next(time.Now())
	r.sweepLater()
	r.mu.Unlock()
	errs := make([]error, len(publications))
	for i, publication := range publications {
		<-publication.done
		errs[i] = publication.errs[0]
	}
	return errs
}

func eventOf(namespace, id string) *cloudevent.Event {
	return newEvent(func(e *cloudevent.Event) {
		e.Publisher, e.ID, e.Type = namespace, id, "order."+namespace+".v1"
	})
}

// storedBatches returns the batch of each stored event, by its id; empty for one that was published singly.
func storedBatches(t *testing.T, conn *Conn) map[string]string {
	t.Helper()
	stream, err := conn.js.Stream(t.Context(), DefaultStream)
	require.NoError(t, err)
	batches := map[string]string{}
	state := stream.CachedInfo().State
	for sequence := state.FirstSeq; sequence <= state.LastSeq; sequence++ {
		message, err := stream.GetMsg(t.Context(), sequence)
		require.NoError(t, err)
		batches[message.Header.Get(headerID)] = message.Header.Get(headerBatchID)
	}
	return batches
}

func patientPublisher(conn *Conn) *Publisher {
	return NewPublisher(conn, publisherOptions(func(o *PublisherOptions) { o.Timeout = testTimeout }))
}

func noErrors(t *testing.T, errs []error) {
	t.Helper()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

func TestEventsOfSeveralPublishersAreStoredAsOneBatch(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	ensureConsumer(t, conn, Consumer{Name: "c1", Subjects: []string{"kyma.>"}})
	publisher := patientPublisher(conn)
	noErrors(t, together(t, publisher, eventOf("shop", "1"), eventOf("red", "2"), eventOf("shop", "3")))
	batches := storedBatches(t, conn)
	require.Len(t, batches, 3)
	require.NotEmpty(t, batches["1"])
	require.Equal(t, batches["1"], batches["2"])
	require.Equal(t, batches["1"], batches["3"])
	require.Zero(t, publisher.pending.Load())
	require.NoError(t, publisher.Publish(t.Context(), eventOf("shop", "4")))
	require.Empty(t, storedBatches(t, conn)["4"], "one event is no batch")
}

func TestARepeatInABatchIsASuccessForAllAndSpoilsNoOther(t *testing.T) {
	t.Parallel()
	for name, repeats := range map[string][]*cloudevent.Event{
		"of an event that is stored": {eventOf("hostile", "0")},
		"within the batch":           {eventOf("hostile", "1"), eventOf("hostile", "1")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, conn := start(t)
			ensureConsumer(t, conn, Consumer{Name: "c1", Subjects: []string{"kyma.>"}})
			publisher := patientPublisher(conn)
			require.NoError(t, publisher.Publish(t.Context(), eventOf("hostile", "0")))
			noErrors(t, together(t, publisher, append(repeats, eventOf("shop", "2"), eventOf("red", "3"))...))
			publisher.rounds.mu.Lock()
			require.Contains(t, publisher.rounds.spoilers, "hostile")
			publisher.rounds.spoilers["hostile"].until = time.Now().Add(time.Hour) // also on a busy machine
			publisher.rounds.mu.Unlock()
			noErrors(t, together(t, publisher, append(repeats, eventOf("shop", "4"), eventOf("red", "5"))...))
			batches := storedBatches(t, conn)
			require.Empty(t, batches["2"], "the batch was refused")
			require.NotEmpty(t, batches["4"], "the spoiler was kept out of the next")
			require.Equal(t, batches["4"], batches["5"])
			want := uint64(5) // and what was repeated
			if len(repeats) > 1 {
				want = 6
			}
			awaitBacklog(t, conn, "c1", Backlog{Pending: want})
		})
	}
}

func TestAFullStreamInABatchRefusesOnlyWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func(*StreamOptions){
		"in events of a type": func(o *StreamOptions) { o.MaxMsgsPerSubject = 2 },
		"in bytes":            func(o *StreamOptions) { o.MaxBytes = 8 << 10 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := connect(t, natstest.Start(t).URL())
			awaitConnected(t, conn)
			options := testStreams()
			limit(&options)
			require.NoError(t, conn.EnsureStreams(t.Context(), options))
			ensureConsumer(t, conn, Consumer{Name: "c1", Subjects: []string{"kyma.>"}})
			publisher := NewPublisher(conn, publisherOptions())
			var events []*cloudevent.Event
			for i := range 40 {
				events = append(events, eventOf("shop", strconv.Itoa(i)))
			}
			stored := uint64(0)
			for _, err := range together(t, publisher, events...) {
				if err == nil {
					stored++
				} else {
					require.ErrorIs(t, err, ErrStorageFull)
				}
			}
			require.Positive(t, stored)
			require.Less(t, stored, uint64(40))
			awaitBacklog(t, conn, "c1", Backlog{Pending: stored})
		})
	}
}

func TestATypeThatBecomesFullWithinABatchStopsNoOtherPublisher(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]string{
		"with the last event, whose refusal is answered": "hostile",
		"before the last event, without an answer":       "red",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := connect(t, natstest.Start(t).URL())
			awaitConnected(t, conn)
			options := testStreams()
			options.MaxMsgsPerSubject = 2
			require.NoError(t, conn.EnsureStreams(t.Context(), options))
			ensureConsumer(t, conn, Consumer{Name: "c1", Subjects: []string{"kyma.>"}})
			publisher := NewPublisher(conn, publisherOptions(func(o *PublisherOptions) { o.Timeout = 10 * time.Second }))
			events := []*cloudevent.Event{eventOf("hostile", "0"), eventOf("hostile", "1")}
			for i := range 20 {
				events = append(events, eventOf("quiet"+strconv.Itoa(i), strconv.Itoa(i+2)))
			}
			errs := together(t, publisher, append(events, eventOf("hostile", "22"), eventOf(last, "23"))...)
			noErrors(t, errs[:22])
			require.ErrorIs(t, errs[22], ErrStorageFull)
			stored := uint64(22)
			if errs[23] == nil {
				stored++
			}
			awaitBacklog(t, conn, "c1", Backlog{Pending: stored})
			publisher.rounds.mu.Lock()
			spoilers := slices.Collect(maps.Keys(publisher.rounds.spoilers))
			publisher.rounds.mu.Unlock()
			require.Equal(t, []string{"hostile"}, spoilers)
		})
	}
}

func TestAStreamThatTakesNoBatchesIsPublishedToSingly(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	stream, err := conn.js.Stream(t.Context(), DefaultStream)
	require.NoError(t, err)
	settings := stream.CachedInfo().Config
	settings.AllowAtomicPublish = false
	_, err = conn.js.UpdateStream(t.Context(), settings)
	require.NoError(t, err)
	ensureConsumer(t, conn, Consumer{Name: "c1", Subjects: []string{"kyma.>"}})
	publisher := patientPublisher(conn)
	noErrors(t, together(t, publisher, eventOf("shop", "1"), eventOf("red", "2")))
	require.Equal(t, map[string]string{"1": "", "2": ""}, storedBatches(t, conn))
	publisher.rounds.mu.Lock()
	require.True(t, time.Now().Before(publisher.rounds.retry))
	publisher.rounds.mu.Unlock()

	require.NoError(t, conn.EnsureStreams(t.Context(), testStreams()), "an upgrade changes the stream in place")
	noErrors(t, together(t, publisher, eventOf("shop", "3"), eventOf("red", "4")))
	require.NotEmpty(t, storedBatches(t, conn)["3"])
}

func TestEachPublishersEventsKeepTheirOrderInBatches(t *testing.T) {
	t.Parallel()
	const publishers, each = 16, 40
	_, conn := start(t)
	ensureConsumer(t, conn, Consumer{Name: "c1", Subjects: []string{"kyma.>"}})
	publisher := patientPublisher(conn)
	var all sync.WaitGroup
	for n := range publishers {
		all.Go(func() {
			for i := 0; i < each; i += 4 {
				var events []*cloudevent.Event
				for j := range 4 {
					events = append(events, eventOf("p"+strconv.Itoa(n), fmt.Sprintf("%d-%03d", n, i+j)))
				}
				for _, err := range publisher.PublishAll(t.Context(), events) {
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	last := map[string]string{}
	stream, err := conn.js.Stream(t.Context(), DefaultStream)
	require.NoError(t, err)
	for sequence := uint64(1); sequence <= publishers*each; sequence++ {
		message, err := stream.GetMsg(t.Context(), sequence)
		require.NoError(t, err)
		id := message.Header.Get(headerID)
		require.Less(t, last[message.Subject], id)
		last[message.Subject] = id
	}
}

func TestPublishingGoesOnInBatchesAfterAReconnect(t *testing.T) {
	t.Parallel()
	server, conn := start(t)
	ensureConsumer(t, conn, Consumer{Name: "c1", Subjects: []string{"kyma.>"}})
	publisher := patientPublisher(conn)
	noErrors(t, together(t, publisher, eventOf("shop", "1"), eventOf("red", "2")))
	server.Restart()
	awaitConnected(t, conn)
	require.Eventually(t, func() bool {
		return publisher.Publish(t.Context(), eventOf("shop", "3")) == nil
	}, testTimeout, moment)
	noErrors(t, together(t, publisher, eventOf("shop", "4"), eventOf("red", "5")))
	require.NotEmpty(t, storedBatches(t, conn)["5"])
}

// unconnected is Publish of a publisher that has no connection, but a stream that the test made up.
func unconnected(ctx context.Context, p *Publisher, e *cloudevent.Event) error {
	message, err := encode(e)
	if err != nil {
		return err
	}
	errs := make([]error, 1)
	p.publishMessages(ctx, e.Publisher, []*nats.Msg{message}, errs)
	return errs[0]
}

// costly is a stream whose server takes its time for each message and each batch, one after the other.
type costly struct {
	rounds        *rounds
	single, batch time.Duration
	arrived       chan *nats.Msg
	seen          map[string]bool
	heard         []string
	silent        bool // does not answer batches
	batches       int
}

func newCostly(t *testing.T) (*costly, *Publisher) {
	t.Helper()
	c := &costly{single: time.Millisecond, batch: 4 * time.Millisecond, arrived: make(chan *nats.Msg, 10_000), seen: map[string]bool{}}
	p := &Publisher{options: publisherOptions()}
	p.rounds = newRounds(p.options, func(m *nats.Msg) error {
		c.arrived <- &nats.Msg{Subject: m.Subject, Reply: m.Reply, Header: cloneHeader(m.Header)}
		return nil
	}, "answers.", func(done *publication) { p.release(int64(len(done.messages)), done.bytes) })
	c.rounds = p.rounds
	go c.serve(t.Context())
	return c, p
}

func cloneHeader(header nats.Header) nats.Header {
	clone := nats.Header{}
	for name, values := range header {
		clone[name] = slices.Clone(values)
	}
	return clone
}

func (c *costly) serve(ctx context.Context) {
	var batch []*nats.Msg
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-c.arrived:
			c.heard = append(c.heard, m.Header.Get(headerID))
			switch {
			case m.Header.Get(headerBatchID) == "":
				c.answer(m, c.store(m))
			case m.Header.Get(headerBatchCommit) == "":
				batch = append(batch, m)
			default:
				answer := c.commit(append(batch, m))
				if c.batches++; !c.silent {
					c.answer(m, answer)
				}
				batch = nil
			}
		}
	}
}

func (c *costly) store(m *nats.Msg) confirmation {
	id := m.Header.Get(jetstream.MsgIDHeader)
	repeat := c.seen[id]
	c.seen[id] = true
	time.Sleep(c.single)
	return confirmation{Stream: testStream, Duplicate: repeat}
}

func (c *costly) commit(batch []*nats.Msg) confirmation {
	time.Sleep(c.batch)
	for _, m := range batch {
		if c.seen[m.Header.Get(jetstream.MsgIDHeader)] {
			return confirmation{Error: &jetstream.APIError{Code: 400, ErrorCode: 10201, Description: "repeat"}}
		}
	}
	for _, m := range batch {
		c.seen[m.Header.Get(jetstream.MsgIDHeader)] = true
	}
	return confirmation{Stream: testStream, Batch: batch[0].Header.Get(headerBatchID), Count: len(batch)}
}

func (c *costly) answer(m *nats.Msg, answer confirmation) {
	body, _ := json.Marshal(answer)
	c.rounds.confirmed(&nats.Msg{Subject: m.Reply, Data: body})
}

func TestAFloodOfRepeatsDelaysNoOtherPublisher(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, publisher := newCostly(t)
		ctx, stop := context.WithCancel(t.Context())
		var flood sync.WaitGroup
		for i := range 500 {
			flood.Go(func() {
				for ctx.Err() == nil {
					_ = unconnected(t.Context(), publisher, eventOf("hostile", strconv.Itoa(i)))
				}
			})
		}
		time.Sleep(2 * time.Second)
		var took []time.Duration
		for i := range 100 {
			began := time.Now()
			require.NoError(t, unconnected(t.Context(), publisher, eventOf("quiet", strconv.Itoa(i))))
			took = append(took, time.Since(began))
		}
		stop()
		flood.Wait()
		require.LessOrEqual(t, slices.Max(took), 2*(maxApart+4)*time.Millisecond, "500 repeats would take 500 ms")
	})
}

func TestAnEventThatIsWithdrawnFromTheQueueIsNotPublished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stream, publisher := newCostly(t)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { noErrorOf(t, unconnected(t.Context(), publisher, eventOf("shop", "first"))) })
		synctest.Wait()
		withdrawn := make(chan error, 1)
		all.Go(func() { withdrawn <- unconnected(ctx, publisher, eventOf("shop", "withdrawn")) })
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-withdrawn, context.Canceled)
		all.Wait()
		require.NoError(t, unconnected(t.Context(), publisher, eventOf("shop", "last")))
		require.Equal(t, []string{"first", "last"}, stream.heard)
		require.Zero(t, publisher.pending.Load())
	})
}

func noErrorOf(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func TestABatchWithoutAnAnswerIsATimeoutForAllAndHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &Publisher{options: publisherOptions()}
		silent := true
		p.rounds = newRounds(p.options, func(m *nats.Msg) error {
			if m.Reply != "" && !silent {
				body, err := json.Marshal(confirmation{Stream: testStream})
				go p.rounds.confirmed(&nats.Msg{Subject: m.Reply, Data: body})
				return err
			}
			return nil
		}, "answers.", func(done *publication) { p.release(int64(len(done.messages)), done.bytes) })
		began := time.Now()
		for _, err := range together(t, p, eventOf("shop", "1"), eventOf("red", "2")) {
			require.ErrorIs(t, err, ErrTimeout)
		}
		require.LessOrEqual(t, time.Since(began), p.options.Timeout+p.options.Timeout/sweepsPerTimeout)
		silent = false
		require.NoError(t, unconnected(t.Context(), p, eventOf("shop", "1")))
		noErrors(t, together(t, p, eventOf("shop", "3"), eventOf("red", "4")))
		require.True(t, time.Now().Before(p.rounds.retry), "who confirms a batch as a message takes no batches")
		require.Zero(t, p.pending.Load())
	})
}

func TestBatchesWithoutAnAnswerDelayNobodyUntilTheTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stream, publisher := newCostly(t)
		stream.silent = true
		var longest atomic.Int64
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					began := time.Now()
					noErrorOf(t, unconnected(t.Context(), publisher, eventOf("p"+strconv.Itoa(i), strconv.Itoa(n))))
					longest.Store(max(longest.Load(), int64(time.Since(began))))
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		all.Wait()
		require.Less(t, time.Duration(longest.Load()), publisher.options.Timeout/4)
		require.LessOrEqual(t, stream.batches, 6+10, "ever more rarely, at most once a minute")
		require.Empty(t, publisher.rounds.spoilers, "nobody is to blame")
		require.Zero(t, publisher.pending.Load())
	})
}

func TestAnEventOfASpoilerThatCannotBeSentEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &Publisher{options: publisherOptions()}
		p.rounds = newRounds(p.options, func(*nats.Msg) error { return nil }, "answers.",
			func(done *publication) { p.release(int64(len(done.messages)), done.bytes) })
		p.rounds.spoilers.add("hostile", time.Now().Add(time.Hour))
		began := time.Now()
		var all sync.WaitGroup
		for i := range 4 * maxApart {
			all.Go(func() {
				if err := unconnected(t.Context(), p, eventOf("hostile", strconv.Itoa(i))); !errors.Is(err, ErrTimeout) {
					t.Error("expected a timeout, got", err)
				}
			})
		}
		all.Wait()
		require.LessOrEqual(t, time.Since(began), p.options.Timeout+p.options.Timeout/sweepsPerTimeout)
		require.Zero(t, p.pending.Load())
	})
}
