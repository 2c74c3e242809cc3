package subscription

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

func TestAConsumerThatIsDeletedByHandIsBackAtOnce(t *testing.T) {
	w := newFixture(t)
	w.createSink()
	sub := w.create("orders")
	w.awaitReady(sub)
	for range 3 { // the sweeper would need more than a minute
		before, found := w.consumer(sub)
		require.True(t, found)
		require.NoError(t, w.conn.DeleteConsumer(t.Context(), broker.DefaultStream, before.Name))
		w.awaitConsumer(sub, "it is back before anybody looks", func(after broker.Consumer, ok bool) bool {
			return ok && !after.Progress.Created.Equal(before.Progress.Created)
		})
	}
}

func TestOfEventsThatAreTakenAfterTheirStreamWasDeletedNoneIsLost(t *testing.T) {
	losesNone(t, newFixture(t))
}

// The server may stop before it has sent the advisory of the stream, behind those of its consumers.
func TestADeletedStreamIsCreatedAgainWithoutAnAdvisory(t *testing.T) {
	server := natstest.Start(t, natstest.WithAuthorization(t, `
		no_auth_user: all
		authorization: {users: [
			{user: all, password: all, permissions: {subscribe: {deny: "$JS.EVENT.ADVISORY.STREAM.DELETED.>"}}}
		]}`))
	losesNone(t, newFixtureAt(t, server, server.URL()))
}

func losesNone(t *testing.T, w *fixture) {
	t.Helper()
	w.createSink()
	sub := w.create("orders")
	w.awaitReady(sub)
	publisher := broker.NewPublisher(w.conn, broker.DefaultPublisherOptions())
	for round := range 3 {
		w.nats.DeleteStream(t, broker.DefaultStream)
		taken := uint64(0)
		require.Eventually(t, func() bool {
			event := cloudevent.Event{ID: strconv.Itoa(round) + "/" + strconv.FormatUint(taken, 10), Source: "shop", Type: "order.received.v1"}
			if publisher.Publish(t.Context(), &event) == nil {
				taken++
			}
			return taken > 20
		}, timeout, tick/10, "publishers are heard again")
		require.Eventually(t, func() bool { // NATS counts an event after it has confirmed it
			backlog, err := w.conn.Backlog(t.Context(), broker.DefaultStream, routing.ConsumerName(sub.Namespace, sub.Name))
			return err == nil && taken == backlog.Total()
		}, timeout, tick)
	}
}
