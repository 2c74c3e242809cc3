package broker

import (
	"testing"

	"github.com/stretchr/testify/require"
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
