package broker

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

func publisherOptions(change ...func(*PublisherOptions)) PublisherOptions {
	options := DefaultPublisherOptions()
	for _, c := range change {
		c(&options)
	}
	return options
}

func eventWithID(id string) *cloudevent.Event {
	return newEvent(func(e *cloudevent.Event) { e.ID = id })
}

func TestPublishStoresAnEventOnce(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	ensureConsumer(t, conn, Consumer{Name: "c1", Subjects: []string{"kyma.shop.order.received.v1"}})
	publisher := NewPublisher(conn, publisherOptions())

	require.NoError(t, publisher.Publish(t.Context(), eventWithID("A")))
	require.NoError(t, publisher.Publish(t.Context(), eventWithID("A")), "a repeat is a success")
	require.NoError(t, publisher.Publish(t.Context(), eventWithID("B")))
	other := eventWithID("A")
	other.Source = "sho.p"
	require.NoError(t, publisher.Publish(t.Context(), other), "the same id of another source is another event")
	awaitBacklog(t, conn, "c1", Backlog{Pending: 3})
}

func TestAnEventIsNoRepeatOfOneThatAnotherRightWasNeededFor(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	ensureConsumer(t, conn, Consumer{Name: "c1", Subjects: []string{"kyma.>"}})
	publisher := NewPublisher(conn, publisherOptions())
	victims := func(change func(*cloudevent.Event)) *cloudevent.Event {
		return newEvent(func(e *cloudevent.Event) { e.Publisher = "shop" }, change)
	}
	require.NoError(t, publisher.Publish(t.Context(), victims(func(e *cloudevent.Event) { e.Type = "order.noted.v1" })), "of another type")
	require.NoError(t, publisher.Publish(t.Context(), victims(func(e *cloudevent.Event) { e.Publisher = "red" })), "of another namespace")
	for range 2 {
		errs := publisher.PublishAll(t.Context(), []*cloudevent.Event{victims(func(*cloudevent.Event) {})})
		require.NoError(t, errs[0])
		require.NoError(t, publisher.PublishLegacy(t.Context(), victims(func(*cloudevent.Event) {}), ""), "a repeat is a success")
	}
	awaitBacklog(t, conn, "c1", Backlog{Pending: 3})
}

func TestABatchIsStoredInItsOrderAndOnce(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	ensureConsumer(t, conn, Consumer{Name: "c1", Subjects: []string{"kyma.shop.order.received.v1"}})
	publisher := NewPublisher(conn, publisherOptions(func(o *PublisherOptions) { o.MaxPending = 4 }))
	batch := []*cloudevent.Event{eventWithID("1"), {}, eventWithID("2"), eventWithID("3"), eventWithID("1")}
	for range 2 {
		errs := publisher.PublishAll(t.Context(), batch)
		require.Len(t, errs, len(batch))
		for i, err := range errs {
			if i == 1 {
				var invalid *InvalidEventError
				require.ErrorAs(t, err, &invalid)
			} else {
				require.NoError(t, err)
			}
		}
	}
	require.Zero(t, publisher.pending.Load())
	awaitBacklog(t, conn, "c1", Backlog{Pending: 3})
	for sequence, id := range []string{"1", "2", "3"} {
		stored, err := conn.stored(t, uint64(sequence+1))
		require.NoError(t, err)
		require.Equal(t, id, stored.ID)
	}
}

func TestABatchAboveMaxPendingIsRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	ensureConsumer(t, conn, Consumer{Name: "c1", Subjects: []string{"kyma.shop.order.received.v1"}})
	publisher := NewPublisher(conn, publisherOptions(func(o *PublisherOptions) { o.MaxPending = 2 }))
	errs := publisher.PublishAll(t.Context(), []*cloudevent.Event{eventWithID("1"), {}, eventWithID("2"), eventWithID("3")})
	for i, err := range errs {
		if i == 1 {
			var invalid *InvalidEventError
			require.ErrorAs(t, err, &invalid, "no free storage changes that")
		} else {
			require.ErrorIs(t, err, ErrBusy)
		}
	}
	require.Zero(t, publisher.pending.Load())
	require.NoError(t, publisher.Publish(t.Context(), eventWithID("4")))
	awaitBacklog(t, conn, "c1", Backlog{Pending: 1})
}

// stored is the event at a sequence of the stream.
func (c *Conn) stored(t *testing.T, sequence uint64) (cloudevent.Event, error) {
	t.Helper()
	stream, err := c.js.Stream(t.Context(), DefaultStream)
	require.NoError(t, err)
	message, err := stream.GetMsg(t.Context(), sequence)
	require.NoError(t, err)
	return decode(message.Header, message.Data)
}

func TestPublishWithoutAConsumerSucceeds(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	require.NoError(t, NewPublisher(conn, publisherOptions()).Publish(t.Context(), newEvent()))
}

func TestPublishRefuses(t *testing.T) {
	t.Parallel()
	_, conn := start(t, natstest.WithMaxPayload(16<<10))

	t.Run("an invalid event", func(t *testing.T) {
		t.Parallel()
		var invalid *InvalidEventError
		require.ErrorAs(t, NewPublisher(conn, publisherOptions()).Publish(t.Context(), &cloudevent.Event{}), &invalid)
	})
	t.Run("an event that the server does not take, or would not take as a dead letter", func(t *testing.T) {
		t.Parallel()
		for _, size := range []int{17 << 10, 13 << 10} {
			large := newEvent(withData("text/plain", []byte(strings.Repeat("x", size))))
			require.ErrorIs(t, NewPublisher(conn, publisherOptions()).Publish(t.Context(), large), ErrTooLarge)
		}
	})
	t.Run("options that make no sense", func(t *testing.T) {
		t.Parallel()
		require.ErrorContains(t, NewPublisher(conn, PublisherOptions{}).Publish(t.Context(), newEvent()), "--publish-max-pending")
	})
}

func TestPublishSaysThatStorageIsFull(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*StreamOptions){
		"in bytes":            func(o *StreamOptions) { o.MaxBytes = 8 << 10 },
		"in events of a type": func(o *StreamOptions) { o.MaxMsgsPerSubject = 5 },
	}
	for name, limit := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := connect(t, natstest.Start(t).URL())
			awaitConnected(t, conn)
			options := testStreams()
			limit(&options)
			require.NoError(t, conn.EnsureStreams(t.Context(), options))
			ensureConsumer(t, conn, Consumer{Name: "c1", Subjects: []string{"kyma.shop.order.received.v1"}})
			publisher := NewPublisher(conn, publisherOptions())
			stored := uint64(0)
			var err error
			for err == nil && stored < 1000 {
				if err = publisher.Publish(t.Context(), eventWithID(strconv.FormatUint(stored, 10))); err == nil {
					stored++
				}
			}
			require.ErrorIs(t, err, ErrStorageFull)
			awaitBacklog(t, conn, "c1", Backlog{Pending: stored})
		})
	}
}

func TestPublishSaysThatNoStreamAnswers(t *testing.T) {
	t.Parallel()
	conn := connect(t, natstest.Start(t).URL())
	awaitConnected(t, conn)
	require.ErrorIs(t, NewPublisher(conn, publisherOptions()).Publish(t.Context(), newEvent()), ErrNoStream)
}

func TestPublishFailsAtOnceWithoutAConnection(t *testing.T) {
	t.Parallel()
	server, conn := start(t)
	publisher := NewPublisher(conn, publisherOptions())
	server.Stop()
	require.Eventually(t, func() bool { return !conn.Connected() }, testTimeout, moment)
	begin := time.Now()
	require.ErrorIs(t, publisher.Publish(t.Context(), newEvent()), ErrNotConnected)
	require.Less(t, time.Since(begin), publisher.options.Timeout)
}

// silence takes what is published to the stream and answers nothing.
func silence(t *testing.T) *Conn {
	t.Helper()
	conn := connect(t, natstest.Start(t).URL())
	awaitConnected(t, conn)
	_, err := conn.nc.Subscribe("kyma.>", func(*nats.Msg) {})
	require.NoError(t, err)
	require.NoError(t, conn.nc.Flush())
	return conn
}

func TestPublishGivesUpInTime(t *testing.T) {
	t.Parallel()
	conn := silence(t)

	short := NewPublisher(conn, publisherOptions(func(o *PublisherOptions) { o.Timeout = 50 * time.Millisecond }))
	require.ErrorIs(t, short.Publish(t.Context(), newEvent()), ErrTimeout)

	long := NewPublisher(conn, publisherOptions())
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, long.Publish(ctx, newEvent()), ErrTimeout)

	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, long.Publish(ctx, newEvent()), context.Canceled)
}

func TestPublishIsBusyAboveItsLimit(t *testing.T) {
	t.Parallel()
	publisher := NewPublisher(silence(t), publisherOptions(func(o *PublisherOptions) { o.MaxPending = 2 }))
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range 2 {
		waiting.Go(func() { _ = publisher.Publish(ctx, newEvent()) })
	}
	require.Eventually(t, func() bool { return publisher.pending.Load() == 2 }, testTimeout, moment)
	require.ErrorIs(t, publisher.Publish(t.Context(), newEvent()), ErrBusy)
	cancel()
	waiting.Wait()
	require.Zero(t, publisher.pending.Load())
}

func TestPublishIsBusyAboveTheMemoryThatWhatIsSentMayTake(t *testing.T) {
	t.Parallel()
	large := newEvent(func(e *cloudevent.Event) {
		e.DataContentType, e.Data = "text/plain", []byte(strings.Repeat("\x01", 10<<10)) // six bytes each in JSON
	})
	publisher := NewPublisher(silence(t), publisherOptions(func(o *PublisherOptions) { o.MaxPendingBytes = 50 << 10 }))
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	waiting.Go(func() { _ = publisher.Publish(ctx, large) })
	require.Eventually(t, func() bool { return publisher.pendingBytes.Load() > 60<<10 }, testTimeout, moment, "alone it may be of any size")
	require.ErrorIs(t, publisher.Publish(t.Context(), newEvent()), ErrBusy)
	require.ErrorIs(t, publisher.PublishAll(t.Context(), []*cloudevent.Event{newEvent()})[0], ErrBusy)
	cancel()
	waiting.Wait()
	require.Zero(t, publisher.pendingBytes.Load())
}

func TestPublishersShareTheConnectionUnderLoad(t *testing.T) {
	t.Parallel()
	const events = 2000
	_, conn := start(t)
	ensureConsumer(t, conn, Consumer{Name: "c1", Subjects: []string{"kyma.shop.order.received.v1"}})
	publisher := NewPublisher(conn, publisherOptions())
	var publishers sync.WaitGroup
	for worker := range 50 {
		publishers.Go(func() {
			for i := range events / 50 {
				if err := publisher.Publish(t.Context(), eventWithID(strconv.Itoa(worker)+"-"+strconv.Itoa(i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	publishers.Wait()
	awaitBacklog(t, conn, "c1", Backlog{Pending: events})
}

func TestPublishersCannotPublishRedeliveries(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"rouse-redelivery", "rouse-.redelivery", "/rouse-redelivery"} {
		e := newEvent(func(e *cloudevent.Event) {
			e.Source, e.Type = source, "644f7b8cf5aca6aec34d5cd7d59560ba"
		})
		_, err := encode(e)
		var invalid *InvalidEventError
		require.ErrorAs(t, err, &invalid)
		require.Contains(t, invalid.Reason, "reserved")
	}
}
