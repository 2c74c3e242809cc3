package broker

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

func TestOnPublishNotifiesOnce(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	notified := make(chan struct{}, 10)
	stop, err := conn.OnPublish([]string{"kyma.shop.order.v1", "kyma.shop.*.v1", "kyma.mail.>"}, func() { notified <- struct{}{} })
	require.NoError(t, err)

	publishRaw(t, conn, "kyma.shop.other.v2", 3)
	require.Empty(t, notified, "it listened to a stranger's subject")
	publishRaw(t, conn, "kyma.shop.order.v1", 3)
	publishRaw(t, conn, "kyma.mail.sent.v1", 3)
	await(t, notified)

	// A second listener is notified of what comes after; the first is not notified again.
	again := make(chan struct{}, 10)
	_, err = conn.OnPublish([]string{"kyma.mail.>"}, func() { again <- struct{}{} })
	require.NoError(t, err)
	publishRaw(t, conn, "kyma.mail.sent.v1", 1)
	await(t, again)
	require.Empty(t, notified)
	stop()
	stop()
	require.Zero(t, conn.nc.NumSubscriptions()-1, "only the reply subscription may be left")
}

func TestOnPublishStops(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	notified := make(chan struct{}, 10)
	stop, err := conn.OnPublish([]string{"kyma.a", "kyma.b"}, func() { notified <- struct{}{} })
	require.NoError(t, err)
	stop()
	stop()
	publishRaw(t, conn, "kyma.a", 1)
	require.NoError(t, conn.nc.Flush())
	require.Empty(t, notified)
}

func TestOnPublishSurvivesARestartOfTheServer(t *testing.T) {
	t.Parallel()
	server, conn := start(t)
	notified := make(chan struct{}, 10)
	_, err := conn.OnPublish([]string{"kyma.shop.*"}, func() { notified <- struct{}{} })
	require.NoError(t, err)
	reconnected := make(chan struct{}, 10)
	conn.OnConnect(func() { reconnected <- struct{}{} })
	await(t, reconnected)

	server.Restart()
	await(t, reconnected)
	publishRaw(t, conn, "kyma.shop.order", 1)
	await(t, notified)
}

func TestOnPublishListensBeforeItReturns(t *testing.T) {
	t.Parallel()
	server, listener := start(t)
	publisher := connect(t, server.URL())
	awaitConnected(t, publisher)
	ensureConsumer(t, listener, Consumer{Name: "c1", Subjects: []string{"kyma.shop.order"}})

	// Whatever the order of the two processes, an event is reported or counted,
	// at the latest when the backlog is read a second time.
	for range 200 {
		notified := make(chan struct{}, 10)
		published := make(chan error, 1)
		go func() {
			_, err := publisher.js.Publish(t.Context(), "kyma.shop.order", []byte("{}"))
			published <- err
		}()
		stop, err := listener.OnPublish([]string{"kyma.shop.order"}, func() { notified <- struct{}{} })
		require.NoError(t, err)
		backlog, err := listener.Backlog(t.Context(), testStream, "c1")
		require.NoError(t, err)
		require.NoError(t, await(t, published))
		if backlog.Total() == 0 {
			awaitEither(t, listener, "c1", notified)
		}
		stop()
		require.NoError(t, listener.DeleteConsumer(t.Context(), testStream, "c1"))
		ensureConsumer(t, listener, Consumer{Name: "c1", Subjects: []string{"kyma.shop.order"}})
	}
}

func TestOnPublishRefusesWhatIsNoSubject(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	for name, subjects := range map[string][]string{
		"no subject":          nil,
		"an empty subject":    {""},
		"one of them is none": {"kyma.a", "kyma b"},
	} {
		_, err := conn.OnPublish(subjects, func() {})
		require.Error(t, err, name)
	}
}

func awaitEither(t *testing.T, conn *Conn, consumer string, notified <-chan struct{}) {
	t.Helper()
	require.Eventually(t, func() bool {
		backlog, err := conn.Backlog(t.Context(), testStream, consumer)
		return len(notified) > 0 || (err == nil && backlog.Total() > 0)
	}, testTimeout, moment, "the event was neither reported nor counted")
}

var idlePrice = types.NamespacedName{Namespace: "shop", Name: "price"}

// watchIdle watches until the end of the test, or until stop.
func watchIdle(t *testing.T, conn *Conn, apply func(types.NamespacedName)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- conn.WatchIdle(ctx, apply) }()
	stop = func() {
		cancel()
		require.NoError(t, await(t, ended))
		ended <- nil
	}
	t.Cleanup(stop)
	return stop
}

// announce repeats an announcement, as the scaler does, until it is reported.
func announce(t *testing.T, conn *Conn, function types.NamespacedName, reported <-chan types.NamespacedName) {
	t.Helper()
	require.Eventually(t, func() bool {
		_ = conn.AnnounceIdle(function) // there may be no connection
		for len(reported) > 0 {
			if <-reported == function {
				return true
			}
		}
		return false
	}, testTimeout, moment)
}

func TestAnnouncementsOfIdleFunctionsAreReportedAlsoAfterARestartOfTheServer(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	controller, scaler := connect(t, server.URL()), connect(t, server.URL())
	awaitConnected(t, scaler)
	reported := make(chan types.NamespacedName, 10_000)
	stop := watchIdle(t, controller, func(function types.NamespacedName) { reported <- function })
	announce(t, scaler, idlePrice, reported)

	server.Restart()
	announce(t, scaler, types.NamespacedName{Namespace: "shop", Name: "cart"}, reported)
	stop()
	require.Zero(t, controller.nc.NumSubscriptions())
}

func TestWhatNamesNoFunctionIsNoAnnouncement(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn := connect(t, server.URL())
	awaitConnected(t, conn)
	for _, function := range []types.NamespacedName{
		{},
		{Namespace: "shop"},
		{Name: "price"},
		{Namespace: "shop", Name: "a.b"},
		{Namespace: "*", Name: "price"},
		{Namespace: "shop", Name: ">"},
		{Namespace: "shop", Name: "a b"},
		{Namespace: strings.Repeat("x", 64), Name: "price"},
	} {
		require.Error(t, conn.AnnounceIdle(function), function)
	}

	reported := make(chan types.NamespacedName, 10_000)
	watchIdle(t, conn, func(function types.NamespacedName) { reported <- function })
	announce(t, conn, idlePrice, reported)
	for _, subject := range []string{
		"rouse.idle.shop", "rouse.idle.shop.a.b", "rouse.idle.Shop.price", "rouse.idle.shop._", "rouse.idle.shop." + strings.Repeat("x", 64),
	} {
		require.NoError(t, conn.nc.Publish(subject, nil))
	}
	last := types.NamespacedName{Namespace: "shop", Name: "last"}
	require.NoError(t, conn.AnnounceIdle(last))
	for function := await(t, reported); function != last; function = await(t, reported) {
		require.Equal(t, idlePrice, function)
	}
}

// Anyone who may publish may announce without an end.
func TestAnnouncementsThatAreNotReadInTimeAreDropped(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn := connect(t, server.URL())
	awaitConnected(t, conn)
	begun, release, reported := make(chan types.NamespacedName, 1), make(chan struct{}), make(chan types.NamespacedName, 3*maxAnnouncements)
	watchIdle(t, conn, func(function types.NamespacedName) {
		select {
		case begun <- function:
			<-release
		default:
			reported <- function
		}
	})
	require.Eventually(t, func() bool { return conn.AnnounceIdle(idlePrice) == nil && len(begun) > 0 }, testTimeout, moment)
	for range 2 * maxAnnouncements {
		require.NoError(t, conn.AnnounceIdle(idlePrice))
	}
	require.NoError(t, conn.nc.Flush(), "the answer comes after all of them")
	close(release)
	require.Eventually(t, func() bool { return len(reported) == maxAnnouncements }, testTimeout, moment)
}

func TestAnAnnouncementWithoutAConnectionIsAnError(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	server.Stop()
	require.ErrorIs(t, connect(t, server.URL()).AnnounceIdle(idlePrice), ErrNotConnected)
}

func TestTheCourseOfAWakeIsReported(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn := connect(t, server.URL())
	awaitConnected(t, conn)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended, reported := make(chan error, 1), make(chan string, 10_000)
	go func() {
		ended <- conn.WatchWoken(ctx, func(function types.NamespacedName, course []byte) {
			if function == idlePrice {
				reported <- string(course)
			}
		})
	}()
	require.Eventually(t, func() bool { return conn.AnnounceWoken(idlePrice, []byte("first")) == nil && len(reported) > 0 }, testTimeout, moment)
	require.NoError(t, conn.AnnounceWoken(idlePrice, make([]byte, mostWoken+1)))
	require.NoError(t, conn.AnnounceWoken(idlePrice, []byte("last")))
	for course := await(t, reported); course != "last"; course = await(t, reported) {
		require.Equal(t, "first", course, "what is too long is ignored")
	}
	cancel()
	require.NoError(t, await(t, ended))
}

func TestAnnouncedReplicasAreReported(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn := connect(t, server.URL())
	awaitConnected(t, conn)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended, reported := make(chan error, 1), make(chan int, 10_000)
	go func() {
		ended <- conn.WatchWanted(ctx, func(function types.NamespacedName, replicas int) {
			if function == idlePrice {
				reported <- replicas
			}
		})
	}()
	require.Eventually(t, func() bool { return conn.AnnounceWanted(idlePrice, 1) == nil && len(reported) > 0 }, testTimeout, moment)
	for _, data := range []string{"", "0", "-1", "x", "1.5", "1000001", "99999999999999999999"} {
		require.NoError(t, conn.nc.Publish("rouse.wanted.shop.price", []byte(data)))
	}
	require.NoError(t, conn.AnnounceWanted(idlePrice, math.MaxInt))
	for replicas := await(t, reported); replicas != mostWanted; replicas = await(t, reported) {
		require.Equal(t, 1, replicas, "an invalid number of replicas is ignored")
	}
	require.Error(t, conn.AnnounceWanted(types.NamespacedName{Namespace: "shop", Name: ">"}, 1))
	cancel()
	require.NoError(t, await(t, ended))
}

func TestPublishedEventsAreWatchedUntilTheEnd(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	started, ids, ended := make(chan struct{}), make(chan string, 10), make(chan error, 1)
	go func() {
		ended <- conn.WatchPublished(ctx, func() { close(started) }, func(ev cloudevent.Event) { ids <- ev.ID })
	}()
	await(t, started)
	publishRaw(t, conn, "kyma.shop.order.v1", 1) // which is no event
	publisher := NewPublisher(conn, publisherOptions())
	for _, id := range []string{"1", "2"} {
		require.NoError(t, publisher.Publish(t.Context(), eventWithID(id)))
	}
	require.Equal(t, "1", <-ids)
	require.Equal(t, "2", <-ids)
	cancel()
	require.NoError(t, <-ended)
	require.Empty(t, ids)
}
