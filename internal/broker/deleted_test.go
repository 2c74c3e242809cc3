package broker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

func TestOnDeletedReportsStreamsAndConsumers(t *testing.T) {
	t.Parallel()
	server, conn := start(t)
	notified := make(chan [2]string, 100)
	stop, err := conn.OnDeleted([]string{testStream, RetryStream}, func(stream, consumer string) { notified <- [2]string{stream, consumer} })
	require.NoError(t, err)
	defer stop()
	other := connect(t, server.URL())
	awaitConnected(t, other)
	for _, name := range []string{"c1", "c2"} {
		ensureConsumer(t, conn, Consumer{Name: name, Subjects: []string{"kyma." + name}})
	}
	require.NoError(t, other.DeleteConsumer(t.Context(), testStream, "c1"))
	require.Equal(t, [2]string{testStream, "c1"}, await(t, notified))
	require.NoError(t, other.DeleteConsumer(t.Context(), RetryStream, retryConsumer))
	require.Equal(t, [2]string{RetryStream, retryConsumer}, await(t, notified))
	require.NoError(t, other.js.DeleteStream(t.Context(), DeadLetterStream))
	require.Eventually(t, func() bool { // the server may stop before it has sent the advisory of a stream
		_ = other.EnsureStreams(t.Context(), testStreams())
		_ = other.js.DeleteStream(t.Context(), testStream)
		for {
			select {
			case what := <-notified:
				require.Equal(t, testStream, what[0])
				if what[1] == "" {
					return true
				}
			case <-time.After(time.Second):
				return false
			}
		}
	}, testTimeout, moment)
	stop()
	require.NoError(t, other.js.DeleteStream(t.Context(), RetryStream))
}

func TestANewStreamTakesNoEventBeforeItsConsumersAreThere(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	require.NoError(t, conn.js.DeleteStream(t.Context(), testStream))
	publisher := NewPublisher(conn, publisherOptions())
	consumers := []Consumer{
		{Name: "c1", Subjects: []string{testSubject}}, {Name: "refused", Subjects: []string{"kyma.shop.*", "kyma.shop.order"}},
	}
	gone := errors.New("the Subscriptions are not known")
	interested := func(context.Context) ([]Consumer, error) {
		require.ErrorIs(t, publisher.Publish(t.Context(), eventWithID("early")), ErrNoStream)
		return nil, gone
	}
	for range 2 {
		require.ErrorIs(t, conn.EnsureStreamsFor(t.Context(), testStreams(), interested), gone)
		require.ErrorIs(t, publisher.Publish(t.Context(), eventWithID("early")), ErrNoStream)
	}
	known := func(context.Context) ([]Consumer, error) { return consumers, nil }
	require.NoError(t, conn.EnsureStreamsFor(t.Context(), testStreams(), known))
	require.NoError(t, publisher.Publish(t.Context(), eventWithID("early")))
	awaitBacklog(t, conn, "c1", Backlog{Pending: 1})

	require.NoError(t, conn.EnsureStreamsFor(t.Context(), testStreams(), func(context.Context) ([]Consumer, error) {
		require.Fail(t, "a stream that takes events is not closed")
		return nil, nil
	}))
	require.Equal(t, eventStream(testStreams()).Subjects, streamInfo(t, conn, testStream).Config.Subjects)
}

func TestAllConsumersOfTheRetriesAreOfTheirStream(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	consumers, err := conn.Consumers(t.Context(), RetryStream)
	require.NoError(t, err)
	require.Len(t, consumers, int(lastRetryLevel)+2)
	for _, consumer := range consumers {
		require.True(t, IsInternalConsumer(consumer.Name), consumer.Name)
	}
	require.False(t, IsInternalConsumer(routing.ConsumerName("shop", retryConsumer)))
}

func TestAStreamThatIsDeletedWhileItIsPreparedIsNotOpenedWithoutItsConsumers(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn := connect(t, server.URL())
	awaitConnected(t, conn)
	deleting := func(ctx context.Context) ([]Consumer, error) {
		return nil, conn.js.DeleteStream(ctx, testStream)
	}
	require.ErrorIs(t, conn.EnsureStreamsFor(t.Context(), testStreams(), deleting), ErrBeingDeleted)
	_, err := conn.js.Stream(t.Context(), testStream)
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
}
