package broker

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

// documented is the server's configuration that docs/nats.md documents for operators.
func documented(t *testing.T) natstest.Option {
	t.Helper()
	page, err := os.ReadFile("../../docs/nats.md")
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```conf\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.Len(t, blocks, 2, "permissions and users")
	return natstest.WithAuthorization(t, blocks[0][1]+blocks[1][1])
}

// process connects as one of the documented users, and fails the test when the server refuses it anything.
func process(t *testing.T, server *natstest.Server, user string) *Conn {
	t.Helper()
	var mu sync.Mutex
	var problems []string
	log := funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.Contains(strings.ToLower(args), "permissions violation") {
			problems = append(problems, args)
		}
	}, funcr.Options{})
	options := Options{
		URL: server.URL(), Name: "rouse-" + user, User: user, PasswordFile: secret(t, []byte("change-"+user)),
	}
	conn, err := Connect(t.Context(), options, log)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
		defer cancel()
		_ = conn.Close(ctx)
		mu.Lock()
		defer mu.Unlock()
		require.Empty(t, problems, user)
	})
	awaitConnected(t, conn)
	return conn
}

func TestEachProcessDoesItsWorkWithTheDocumentedPermissions(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, documented(t))
	controller, bridge, scaler := process(t, server, "controller"), process(t, server, "eventbridge"), process(t, server, "scaler")
	ctx, end := context.WithTimeout(t.Context(), 2*testTimeout) // a request without a deadline has a few seconds
	defer end()
	subscription := types.NamespacedName{Namespace: "shop", Name: "orders"}
	name := routing.ConsumerName("shop", "orders")
	consumer := Consumer{Name: name, Subjects: []string{"kyma.shop.order", routing.RedeliverySubject(name)}, AckWait: time.Minute}

	// The controller makes, changes, lists.
	streams := testStreams()
	lost := make(chan string, 100)
	stopHearing, err := controller.OnDeleted([]string{testStream, RetryStream, DeadLetterStream}, func(_, consumer string) { lost <- consumer })
	require.NoError(t, err)
	defer stopHearing()
	require.NoError(t, controller.EnsureStreamsFor(ctx, streams, func(context.Context) ([]Consumer, error) { return nil, nil }))
	streams.MaxBytes++
	require.NoError(t, controller.EnsureStreams(ctx, streams), "changed in place")
	_, err = controller.KymaConsumers(ctx, testStream)
	require.NoError(t, err)
	require.NoError(t, controller.EnsureConsumer(ctx, testStream, consumer))
	consumer.MaxAckPending = 7
	require.NoError(t, controller.EnsureConsumer(ctx, testStream, consumer))
	consumer.StartFrom = StartFrom{Policy: StartAll}
	require.NoError(t, controller.EnsureConsumer(ctx, testStream, consumer), "migrated")
	require.NoError(t, controller.RenewConsumer(ctx, testStream, consumer))
	moved := ConsumerOf(routing.Route{
		Subscription: types.NamespacedName{Namespace: "shop", Name: "moved"}, Consumer: routing.ConsumerName("shop", "moved"), Subjects: []string{"kyma.shop.moved"},
	})
	require.NoError(t, controller.EnsureConsumer(ctx, testStream, moved))
	require.NoError(t, controller.HandBack(ctx, testStream, moved))
	require.NoError(t, controller.AdoptConsumers(ctx, testStream, []Consumer{moved}))
	require.NoError(t, controller.HandBack(ctx, testStream, moved))
	require.NoError(t, controller.DropKymaConsumer(ctx, testStream, routing.TypeConsumerName("shop/moved/kyma.shop.moved")))
	_, err = bridge.StreamSettings(ctx, testStream)
	require.NoError(t, err)
	_ = controller.MoveLeader(ctx, testStream, name) // without a cluster there is none; process sees what is not permitted
	listed, err := controller.Consumers(ctx, testStream)
	require.NoError(t, err)
	require.Len(t, listed, 1)

	// The scaler listens and counts.
	heard := make(chan struct{})
	stop, err := scaler.OnPublish([]string{"kyma.shop.order"}, func() { close(heard) })
	require.NoError(t, err)
	defer stop()
	backlog, err := scaler.Backlog(ctx, testStream, name)
	require.NoError(t, err)
	require.Zero(t, backlog.Total())
	idle := make(chan types.NamespacedName, 1000)
	stopWatching := watchIdle(t, controller, func(function types.NamespacedName) { idle <- function })
	announce(t, scaler, idlePrice, idle)
	stopWatching()
	wanted := make(chan int, 1000)
	watching, endWatching := context.WithCancel(ctx)
	watched := make(chan error, 1)
	go func() {
		watched <- controller.WatchWanted(watching, func(_ types.NamespacedName, replicas int) { wanted <- replicas })
	}()
	require.Eventually(t, func() bool { return scaler.AnnounceWanted(idlePrice, 7) == nil && len(wanted) > 0 }, testTimeout, moment)
	require.Equal(t, 7, await(t, wanted))
	require.Eventually(t, func() bool { // a Function that a stand-in serves still needs a pod
		if controller.AnnounceWanted(idlePrice, 1) != nil {
			return false
		}
		for len(wanted) > 0 {
			if <-wanted == 1 {
				return true
			}
		}
		return false
	}, testTimeout, moment)
	endWatching()
	require.NoError(t, await(t, watched))

	// The bridge stores, fetches, settles.
	publisher := NewPublisher(bridge, publisherOptions(func(o *PublisherOptions) { o.Timeout = testTimeout }))
	for _, id := range []string{"acked", "retried", "returned", "rejected", "detached"} {
		require.NoError(t, publisher.Publish(ctx, permitted(id)))
	}
	await(t, heard)
	for _, stream := range []string{testStream, RetryStream, DeadLetterStream} {
		_, err := bridge.Fill(ctx, stream)
		require.NoError(t, err)
	}
	done := make(chan string, 10)
	working, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { bridge.ForwardRetries(working, testStream, unlimitedBudgets) })
	running.Go(func() {
		_ = NewSource(bridge, testStream, name, subscription, 7).Receive(working, nil, func(m *Message) {
			done <- settleAsTold(ctx, t, bridge, m)
		})
	})
	settled := map[string]int{}
	for range 7 { // the one that is retried and the one that is returned come twice
		settled[await(t, done)]++
	}
	require.Equal(t, map[string]int{"acked": 1, "retried": 2, "returned": 2, "rejected": 1, "detached": 1}, settled)
	detached, err := scaler.DetachedCallsOf(ctx, subscription)
	require.NoError(t, err)
	require.Zero(t, detached)
	byName, err := bridge.DetachedCalls(ctx)
	require.NoError(t, err)
	require.Empty(t, byName)

	// Its administrators list, redrive and purge.
	counts, err := controller.DeadLetterCounts(ctx)
	require.NoError(t, err)
	require.Equal(t, map[types.NamespacedName]uint64{subscription: 1}, counts)
	page, err := bridge.ListDeadLetters(ctx, DeadLetterQuery{Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.DeadLetters, 1)
	_, err = bridge.Consumers(ctx, testStream)
	require.NoError(t, err)
	_, err = bridge.DeadLetter(ctx, page.DeadLetters[0].Sequence)
	require.NoError(t, err)
	redriven, err := bridge.Redrive(ctx, testStream, DeadLetterSelection{Sequence: page.DeadLetters[0].Sequence})
	require.NoError(t, err)
	require.EqualValues(t, 1, redriven.Redriven)
	require.Equal(t, "rejected", await(t, done), "it comes again, and is rejected again")
	for _, reason := range []failure.Reason{failure.NotSendable, ""} {
		_, err = bridge.Purge(ctx, DeadLetterSelection{Reason: reason})
		require.NoError(t, err)
	}

	// It keeps what is due later, and says so to other bridges, to the controller and to scalers.
	keepsWhatIsDue(ctx, t, bridge, controller, scaler, publisher)

	// A bridge measures who takes how much of the stream.
	_, err = bridge.Use(ctx, testStream)
	require.NoError(t, err)
	_, err = bridge.HeldBytes(ctx, testStream, name, 1)
	require.NoError(t, err)

	// When the stream is full, a bridge reads what dead letters take, drops some, and the controller learns of which Subscriptions.
	require.NoError(t, bridge.readStored(ctx, DeadLetterStream, DeadLetterSelection{}.filter(), 0, func(storedMessage) bool { return true }))
	require.NoError(t, bridge.dropOldest(ctx, "shop", 1))
	bridge.noteDropped(ctx, subscription)
	dropped, err := controller.DroppedDeadLetters(ctx)
	require.NoError(t, err)
	require.Equal(t, map[types.NamespacedName]bool{subscription: true}, dropped)

	// Dead letters have a sink of their own, while their Subscription wants it.
	deadLetters := Consumer{Name: name, Subjects: []string{routing.DeadLetterSubject(subscription)}, StartFrom: StartFrom{Policy: StartAll}}
	require.NoError(t, controller.EnsureConsumer(ctx, DeadLetterStream, deadLetters))
	deadLetters.MaxAckPending = MaxDeadLettersPending
	require.NoError(t, controller.EnsureConsumer(ctx, DeadLetterStream, deadLetters))
	listed, err = controller.Consumers(ctx, DeadLetterStream)
	require.NoError(t, err)
	require.Len(t, listed, 1)
	published := make(chan struct{})
	hush, err := scaler.OnPublish(deadLetters.Subjects, func() { close(published) })
	require.NoError(t, err)
	defer hush()
	_, err = scaler.Backlog(ctx, DeadLetterStream, name)
	require.NoError(t, err)
	running.Go(func() {
		_ = NewDeadLetterSource(bridge, subscription, 7).Receive(working, nil, func(m *DeadLetterMessage) { done <- settleDeadLetter(ctx, t, m) })
	})
	require.NoError(t, publisher.Publish(ctx, permitted("rejected-too")))
	await(t, published)
	settled = map[string]int{}
	for range 3 { // once as an event, and as a dead letter until it is acked
		settled[await(t, done)]++
	}
	require.Equal(t, map[string]int{"rejected-too": 1, "letter rejected-too": 2}, settled)
	_, err = bridge.Backlog(ctx, DeadLetterStream, name)
	require.NoError(t, err)
	cancel()
	running.Wait()
	require.NoError(t, controller.DeleteConsumer(ctx, DeadLetterStream, name))
	consumer.Ordered = true
	require.NoError(t, controller.EnsureConsumer(ctx, testStream, consumer))
	takesTurns(t, bridge, name)
	_, err = bridge.RetryNow(ctx, testStream, subscription)
	require.NoError(t, err)

	_, err = controller.WaitingRetries(ctx)
	require.NoError(t, err)
	require.NoError(t, controller.PurgeRetries(ctx, subscription))
	require.NoError(t, controller.DeleteConsumer(ctx, testStream, name))
	for await(t, lost) != name { // those of stand-ins come too
		continue
	}
	_, err = controller.DropUnwanted(ctx, testStream)
	require.NoError(t, err)
	unwanted, err := controller.dropBatch(ctx, testStream, holding{last: 1, subjects: map[string]uint64{"kyma.gone": 1}}, 0, false, new(uint64))
	require.NoError(t, err)
	require.Equal(t, []purge{{subject: "kyma.gone", through: 1}}, unwanted)

	// What the controller has made too early it makes once more.
	retries, err := controller.consumerInfo(ctx, RetryStream, levelOf(0).consumer())
	require.NoError(t, err)
	require.NoError(t, controller.deleteConsumer(ctx, RetryStream, retries.Name))
	for _, stream := range []string{testStream, RetryStream, DeadLetterStream} {
		require.EqualError(t, controller.withdraw(ctx, stream), ErrBeingDeleted.Error())
	}
}

// settleAsTold settles a message by the name that its event has, and returns it.
func settleAsTold(ctx context.Context, t *testing.T, bridge *Conn, m *Message) string {
	t.Helper()
	ev, err := m.Event()
	require.NoError(t, err)
	id := ev.ID
	again := m.Attempt() > 1 || m.metadata.NumDelivered > 1
	switch {
	case id == "retried" && !again:
		err = m.Retry(ctx, 0)
	case id == "returned" && !again:
		err = m.Return(ctx, 0)
	case strings.HasPrefix(id, "rejected"):
		deadLetter := DeadLetter{Subscription: types.NamespacedName{Namespace: "shop", Name: "orders"}, Reason: "test"}
		require.NoError(t, bridge.AddDeadLetter(ctx, deadLetter, m))
		err = m.Reject(ctx, "test")
	case id == "detached":
		require.NoError(t, m.Detach(ctx, time.Hour))
		err = m.Ack(ctx)
	default:
		require.NoError(t, m.Extend(ctx))
		err = m.Ack(ctx)
	}
	require.NoError(t, err)
	return id
}

// settleDeadLetter extends a dead letter and acks it when it comes again.
func settleDeadLetter(ctx context.Context, t *testing.T, m *DeadLetterMessage) string {
	t.Helper()
	ev, err := m.Event()
	require.NoError(t, err)
	require.NoError(t, m.Extend(ctx))
	if m.Attempt() == 1 {
		require.NoError(t, m.Retry(ctx, 0))
	} else {
		require.NoError(t, m.Ack(ctx))
	}
	return "letter " + ev.ID
}

func permitted(id string) *cloudevent.Event {
	return &cloudevent.Event{ID: id, Source: "shop", Type: "order"}
}

func TestTheDocumentedPermissionsAllowNothingElse(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t, documented(t))
	for user, tc := range map[string]struct{ publish, subscribe []string }{
		"controller": {
			publish: []string{
				"kyma.shop.order", "rouse.deadletter.shop.orders", "rouse.retry.shop.orders", "$JS.API.STREAM.DELETE.other",
				"$JS.API.STREAM.MSG.DELETE.sap", "$JS.API.STREAM.MSG.GET.sap", "$JS.API.CONSUMER.MSG.NEXT.sap.x", "$JS.ACK.sap.x",
				"$JS.API.STREAM.CREATE.other", "$JS.API.CONSUMER.LIST.other", "$JS.API.STREAM.PURGE.rouse-dead-letters",
				"$JS.API.CONSUMER.MSG.NEXT.rouse-dead-letters.x", "$JS.ACK.rouse-dead-letters.x", "$JS.API.STREAM.LIST", "$SYS.REQ.SERVER.PING", "other",
				"rouse.idle.shop.price", "rouse.woken.shop.price",
			},
			subscribe: []string{
				"kyma.>", ">", "rouse.woken.>", "_INBOX.>", "_INBOX_rouse_eventbridge.>", "_INBOX_rouse_scaler.x",
				"$JS.EVENT.>", "$JS.EVENT.ADVISORY.CONSUMER.DELETED.other.x", "$JS.EVENT.ADVISORY.API",
			},
		},
		"eventbridge": {
			publish: []string{
				"$JS.API.STREAM.CREATE.sap", "$JS.API.STREAM.UPDATE.sap", "$JS.API.STREAM.DELETE.sap", "$JS.API.STREAM.PURGE.sap",
				"$JS.API.STREAM.MSG.DELETE.sap", "$JS.API.STREAM.PURGE.rouse-retries", "$JS.API.CONSUMER.CREATE.sap.x", "$JS.API.CONSUMER.DELETE.sap.x",
				"$JS.API.CONSUMER.CREATE.rouse-dead-letters.x", "$JS.API.CONSUMER.DELETE.rouse-dead-letters.x",
				"$JS.API.CONSUMER.MSG.NEXT.other.x", "$JS.ACK.other.x", "other", "rouse.idle.shop.price",
				"rouse.wanted.shop.price", "rouse.woken.shop.price",
			},
			subscribe: []string{"kyma.>", "rouse.>", "rouse.idle.>", "rouse.wanted.>", "_INBOX.>", "_INBOX_rouse_controller.>"},
		},
		"scaler": {
			publish: []string{
				"kyma.shop.order", "rouse.retry.shop.orders", "rouse.call.1s.1.shop.orders", "$JS.API.CONSUMER.MSG.NEXT.sap.x", "$JS.ACK.sap.x",
				"$JS.API.STREAM.MSG.DELETE.rouse-retries", "$JS.API.CONSUMER.DELETE.sap.x", "$JS.API.STREAM.INFO.sap", "$JS.API.CONSUMER.INFO.other.x",
				"rouse.deadletter.shop.orders", "$JS.API.CONSUMER.MSG.NEXT.rouse-dead-letters.x", "$JS.ACK.rouse-dead-letters.x",
			},
			subscribe: []string{"rouse.>", "rouse.idle.>", "rouse.wanted.>", "rouse.woken.>", "rouse.retry.>", "$JS.>", "_INBOX.>", "_INBOX_rouse_eventbridge.>"},
		},
	} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			refusals := make(chan error, 1)
			client, err := nats.Connect(server.URL(), nats.UserInfo(user, "change-"+user),
				nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refusals <- err }))
			require.NoError(t, err)
			t.Cleanup(client.Close)
			for _, subject := range tc.publish {
				require.NoError(t, client.Publish(subject, nil))
				require.ErrorIs(t, await(t, refusals), nats.ErrPermissionViolation, subject)
			}
			for _, subject := range tc.subscribe {
				_, err := client.SubscribeSync(subject)
				require.NoError(t, err)
				require.ErrorIs(t, await(t, refusals), nats.ErrPermissionViolation, subject)
			}
		})
	}
}

// takesTurns has two sources of an ordered consumer follow each other long before a pin expires.
func takesTurns(t *testing.T, bridge *Conn, consumer string) {
	t.Helper()
	publisher := NewPublisher(bridge, DefaultPublisherOptions())
	for _, id := range []string{"first", "second"} {
		ownership := receive(t, NewOrderedSource(bridge, testStream, consumer, subscription(), 7))
		require.NoError(t, publisher.Publish(t.Context(), permitted(id)))
		require.NoError(t, fetchOne(t, ownership).Ack(t.Context()))
		ownership.cancel()
		require.NoError(t, await(t, ownership.ended))
	}
}

// keepsWhatIsDue does what Schedules and delayed events need.
func keepsWhatIsDue(ctx context.Context, t *testing.T, bridge, controller, scaler *Conn, publisher *Publisher) {
	t.Helper()
	watching, stop := context.WithCancel(ctx)
	heard := make(chan string, 1000)
	var running sync.WaitGroup
	running.Go(func() { _ = bridge.WatchCursors(watching, func(uid string, _ Cursor) { heard <- uid }) })
	running.Go(func() { _ = bridge.WatchDelayed(watching, func(d Delayed) { heard <- d.Namespace }) })
	running.Go(func() { _ = bridge.WatchBeats(watching, func(id string, _ []byte) { heard <- id }) })
	running.Go(func() { _ = scaler.WatchAhead(watching, func(subject string) { heard <- subject }) })
	hears := func(what string, say func() error) {
		require.Eventually(t, func() bool {
			if say() != nil {
				return false
			}
			for len(heard) > 0 {
				if <-heard == what {
					return true
				}
			}
			return false
		}, testTimeout, moment, what)
	}
	var cursor Cursor
	hears("uid", func() (err error) {
		cursor, err = bridge.StoreCursor(ctx, "uid", cursor)
		return err
	})
	_, err := bridge.StoreCursor(ctx, "uid", Cursor{})
	require.ErrorIs(t, err, ErrOvertaken)
	stored, err := controller.Cursor(ctx, "uid")
	require.NoError(t, err)
	require.Equal(t, cursor, stored)
	uids, err := controller.CursorUIDs(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"uid"}, uids)
	require.NoError(t, controller.DeleteCursor(ctx, "uid"))
	stored, err = bridge.Cursor(ctx, "uid")
	require.NoError(t, err)
	require.Zero(t, stored)

	due := time.Now().Add(time.Hour)
	late := permitted("late")
	late.Publisher = "shop"
	delayed, err := publisher.Delay(ctx, late, due)
	require.NoError(t, err)
	_, err = publisher.Delay(ctx, late, due.Add(time.Second))
	require.ErrorIs(t, err, ErrDelayedOtherwise)
	_, _, err = bridge.DelayedRoom(ctx)
	require.NoError(t, err)
	loaded, err := bridge.LoadDelayed(ctx, delayed)
	require.NoError(t, err)
	require.Equal(t, []string{"late", "shop"}, []string{loaded.ID, loaded.Publisher})
	require.NoError(t, bridge.DeleteDelayed(ctx, delayed))
	_, err = bridge.LoadDelayed(ctx, delayed)
	require.ErrorIs(t, err, ErrNoDelayed)
	hears("shop", func() error {
		again, err := publisher.Delay(ctx, late, due)
		return errors.Join(err, bridge.DeleteDelayed(ctx, again))
	})
	hears("beat", func() error { return bridge.Beat("beat", []byte("{}")) })
	hears("kyma.shop.order.v1", func() error { return bridge.AnnounceAhead("shop", "order.v1") })
	stop()
	running.Wait()
}
