package broker

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
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
	publisher := NewPublisher(silence(t), publisherOptions(func(o *PublisherOptions) { o.MaxPending, o.Timeout = 2, time.Second }))
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	for range 2 {
		waiting.Go(func() { _ = publisher.Publish(ctx, newEvent()) })
	}
	require.Eventually(t, func() bool { return publisher.pending.Load() == 2 }, testTimeout, moment)
	require.ErrorIs(t, publisher.Publish(t.Context(), newEvent()), ErrBusy)
	cancel()
	waiting.Wait()
	require.Eventually(t, func() bool { return publisher.pending.Load() == 0 }, testTimeout, moment, "what was sent holds its place until its timeout")
}

func TestPublishIsBusyAboveTheMemoryThatWhatIsSentMayTake(t *testing.T) {
	t.Parallel()
	large := newEvent(func(e *cloudevent.Event) {
		e.DataContentType, e.Data = "text/plain", []byte(strings.Repeat("\x01", 10<<10)) // six bytes each in JSON
	})
	publisher := NewPublisher(silence(t), publisherOptions(func(o *PublisherOptions) { o.MaxPendingBytes, o.Timeout = 50<<10, time.Second }))
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	waiting.Go(func() { _ = publisher.Publish(ctx, large) })
	require.Eventually(t, func() bool { return publisher.pendingBytes.Load() > 60<<10 }, testTimeout, moment, "alone it may be of any size")
	require.ErrorIs(t, publisher.Publish(t.Context(), newEvent()), ErrBusy)
	require.ErrorIs(t, publisher.PublishAll(t.Context(), []*cloudevent.Event{newEvent()})[0], ErrBusy)
	cancel()
	waiting.Wait()
	require.Eventually(t, func() bool { return publisher.pendingBytes.Load() == 0 }, testTimeout, moment)
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

var errInProcess = &jetstream.APIError{Code: 409, ErrorCode: 10158, Description: "duplicate message id is in process"}

// answering is a stream that answers the publishes of an event, by its id, one after the other. Behind the last answer it
// confirms.
type answering struct {
	rounds  *rounds
	answers map[string][]error
	heard   []string
}

// publisherTo returns a publisher whose messages go to the stream singly.
func publisherTo(stream *answering) *Publisher {
	p := &Publisher{options: publisherOptions()}
	p.rounds = newRounds(p.options, stream.publish, "answers.", func(done *publication) { p.release(int64(len(done.messages)), done.bytes) })
	p.rounds.single = true
	stream.rounds = p.rounds
	return p
}

func (a *answering) publish(m *nats.Msg) error {
	id := m.Header.Get(headerID)
	a.heard = append(a.heard, id)
	answer := confirmation{Stream: testStream, Duplicate: true}
	if rest := a.answers[id]; len(rest) > 0 {
		a.answers[id] = rest[1:]
		answer = confirmation{}
		answer.Error, _ = errors.AsType[*jetstream.APIError](rest[0])
	}
	body, err := json.Marshal(answer)
	go a.rounds.confirmed(&nats.Msg{Subject: m.Reply, Data: body})
	return err
}

func TestARepeatWaitsForAnEarlierPublishThatIsUnderWay(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answers []error
		want    error
		asked   int // at least
	}{
		"which is stored in the end": {[]error{errInProcess, errInProcess}, nil, 3},
		"which was the last that fit": {
			[]error{errInProcess, &jetstream.APIError{Code: 503, ErrorCode: 10077, Description: "maximum bytes exceeded"}}, ErrStorageFull, 2,
		},
		"which never ends": {repeated(errInProcess, 1000), ErrInProcess, 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				stream := &answering{answers: map[string][]error{"A": tc.answers}}
				publisher := publisherTo(stream)
				message, err := encode(eventWithID("A"))
				require.NoError(t, err)
				began := time.Now()
				errs := make([]error, 1)
				publisher.publishMessages(t.Context(), "", []*nats.Msg{message}, errs)
				if tc.want == nil {
					require.NoError(t, errs[0])
				} else {
					require.ErrorIs(t, errs[0], tc.want)
				}
				require.GreaterOrEqual(t, len(stream.heard), tc.asked)
				require.LessOrEqual(t, time.Since(began), publisher.options.Timeout)
				require.Zero(t, publisher.pending.Load())
			})
		})
	}
}

func TestOnlyEventsInProcessArePublishedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stream := &answering{answers: map[string][]error{"2": {errInProcess}, "3": {errInProcess}}}
		publisher := publisherTo(stream)
		var messages []*nats.Msg
		for i := range 4 {
			message, err := encode(eventWithID(strconv.Itoa(i + 1)))
			require.NoError(t, err)
			messages = append(messages, message)
		}
		errs := make([]error, len(messages))
		publisher.publishMessages(t.Context(), "", messages, errs)
		for _, err := range errs {
			require.NoError(t, err)
		}
		require.Equal(t, []string{"1", "2", "3", "4", "2", "3"}, stream.heard)
	})
}

func TestRepeatsAtTheSameTimeAreAllConfirmedByACluster(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a cluster takes its time")
	}
	_, conn := startCluster(t)
	publisher := NewPublisher(conn, publisherOptions(func(o *PublisherOptions) { o.Timeout = testTimeout }))
	const events, repeats = 20, 8
	failed := make(chan error, events*repeats*2)
	for i := range events {
		event := eventWithID(strconv.Itoa(i))
		var all sync.WaitGroup
		for range repeats {
			all.Go(func() {
				for _, err := range publisher.PublishAll(t.Context(), []*cloudevent.Event{event, event}) {
					failed <- err
				}
			})
		}
		all.Wait()
	}
	close(failed)
	for err := range failed {
		require.NoError(t, err)
	}
	awaitBacklog(t, conn, "c1", Backlog{Pending: events})
}

func repeated(err error, times int) []error {
	errs := make([]error, times)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

const (
	oldType    = "sap.kyma.custom.shop.order.received.v1"
	oldSubject = "kyma." + oldType
)

// messages is the number of messages that the stream of events holds.
func messages(t *testing.T, conn *Conn) uint64 {
	t.Helper()
	stream, err := conn.js.Stream(t.Context(), DefaultStream)
	require.NoError(t, err)
	return stream.CachedInfo().State.Msgs
}

func TestALegacyEventIsStoredOnceWithoutInterestInItsOldName(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	ensureConsumer(t, conn, Consumer{Name: "modern", Subjects: []string{"kyma.shop.order.received.v1"}})
	publisher := NewPublisher(conn, publisherOptions())

	require.NoError(t, publisher.PublishLegacy(t.Context(), eventWithID("A"), oldType))
	require.Equal(t, uint64(1), messages(t, conn), "the copy is not kept without interest")

	ensureConsumer(t, conn, Consumer{Name: "old", Subjects: []string{oldSubject}})
	for range 2 {
		require.NoError(t, publisher.PublishLegacy(t.Context(), eventWithID("B"), oldType), "a repeat is a success")
	}
	require.NoError(t, publisher.PublishLegacy(t.Context(), eventWithID("C"), ""))
	require.Zero(t, publisher.pending.Load())
	awaitBacklog(t, conn, "modern", Backlog{Pending: 3})
	awaitBacklog(t, conn, "old", Backlog{Pending: 1})

	stream, err := conn.js.Stream(t.Context(), DefaultStream)
	require.NoError(t, err)
	message, err := stream.GetLastMsgForSubject(t.Context(), oldSubject)
	require.NoError(t, err)
	copied, err := decode(message.Header, message.Data)
	require.NoError(t, err)
	require.Equal(t, oldSource, copied.Source)
	require.Equal(t, "B", copied.ID)
	require.Equal(t, oldType, copied.Type)
	require.Empty(t, copied.Extension(ExtensionOriginalType))
}

func TestEqualIDsOfTwoApplicationsAreTwoEventsUnderTheirOldNamesToo(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	ensureConsumer(t, conn, Consumer{Name: "old", Subjects: []string{"kyma.sap.kyma.custom.>"}})
	publisher := NewPublisher(conn, publisherOptions())
	for _, application := range []string{"shop", "shop-2"} {
		e := eventWithID("A")
		e.Source = application
		require.NoError(t, publisher.PublishLegacy(t.Context(), e, "sap.kyma.custom."+strings.ReplaceAll(application, "-", "")+".order.received.v1"))
	}
	awaitBacklog(t, conn, "old", Backlog{Pending: 2})
}

func TestNothingIsStoredOfALegacyEventThatIsRefused(t *testing.T) {
	t.Parallel()
	_, conn := start(t, natstest.WithMaxPayload(16<<10))
	ensureConsumer(t, conn, Consumer{Name: "all", Subjects: []string{"kyma.>"}})
	long := strings.Repeat("x", routing.MaxSubject)
	for name, tc := range map[string]struct {
		source, eventType, oldType string
		size                       int
		wantErr                    string
	}{
		"a type that has no subject":      {eventType: "order..v1", oldType: oldType, wantErr: "empty segments"},
		"a reserved source":               {source: "rouse-redelivery", oldType: oldType, wantErr: "reserved"},
		"data that are too large":         {size: 14 << 10, oldType: oldType, wantErr: ErrTooLarge.Error()},
		"a copy alone that is too large":  {size: 11300, oldType: oldType + "." + long[:900], wantErr: ErrTooLarge.Error()},
		"a type that no line can address": {eventType: "order." + long, oldType: oldType, wantErr: "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			before := messages(t, conn)
			e := newEvent(withData("text/plain", []byte(strings.Repeat("x", tc.size))))
			if tc.eventType != "" {
				e.Type = tc.eventType
			}
			if tc.source != "" {
				e.Source = tc.source
			}
			publisher := NewPublisher(conn, publisherOptions())
			require.ErrorContains(t, publisher.PublishLegacy(t.Context(), e, tc.oldType), tc.wantErr)
			require.Equal(t, before, messages(t, conn))
			require.Zero(t, publisher.pending.Load())
		})
	}
	require.NoError(t, NewPublisher(conn, publisherOptions()).PublishLegacy(t.Context(), eventWithID("A"), oldType+"."+long))
	require.Equal(t, uint64(1), messages(t, conn), "an old name that no consumer can ask for is left out")
}

func TestALegacyEventWhoseCopyIsNotStoredIsNotConfirmed(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	publisher := NewPublisher(conn, publisherOptions(func(o *PublisherOptions) { o.MaxPending = 1 }))
	require.ErrorIs(t, publisher.PublishLegacy(t.Context(), eventWithID("A"), oldType), ErrBusy)
	require.Zero(t, publisher.pending.Load())
	unconnected := connect(t, "nats://127.0.0.1:1")
	require.ErrorIs(t, NewPublisher(unconnected, publisherOptions()).PublishLegacy(t.Context(), eventWithID("A"), oldType), ErrNotConnected)
}

// FuzzLegacyEvents: whatever an application calls its events, both copies of one that is stored can be read again, under
// subjects that the server takes.
func FuzzLegacyEvents(f *testing.F) {
	f.Add("my-shop", "Account.Root.Created", "v1", []byte(`{"a":1}`))
	f.Add("a b", "x", "1.0 >*", []byte("\"\xff\""))
	f.Add("\u2028", "..", "\x7f", []byte("0"))
	f.Fuzz(func(t *testing.T, application, name, version string, data []byte) {
		e := newEvent(withData("application/json", data))
		e.Source, e.Type = application, name+"."+version
		e.SetExtension("eventtypeversion", version)
		message, err := encode(e)
		if err != nil {
			var invalid *InvalidEventError
			require.ErrorAs(t, err, &invalid)
			return
		}
		stored := []*nats.Msg{message}
		if oldName, ok := routing.OldType(application, name, version); ok {
			stored = append(stored, oldCopy(e, message, oldName)...)
		}
		for i, m := range stored {
			require.True(t, server.IsValidPublishSubject(m.Subject), "%q", m.Subject)
			back, err := decode(m.Header, m.Data)
			require.NoError(t, err)
			require.Equal(t, e.ID, back.ID)
			require.Equal(t, string(data), string(back.Data))
			require.Equal(t, i == 1, routing.IsOldType(back.Type) && back.Source == oldSource && m.Subject == "kyma."+back.Type)
		}
	})
}
