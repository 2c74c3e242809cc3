package broker

import (
	"slices"
	"strconv"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/internal/routing"
	"github.com/rouse-run/rouse/internal/testing/natstest"
)

// ordersConsumer is the consumer of Subscription shop/orders for some subjects.
func ordersConsumer(subjects ...string) Consumer {
	name := routing.ConsumerName("shop", "orders")
	return Consumer{
		Name: name, Description: "shop/orders", Subjects: append(subjects, routing.RedeliverySubject(name)),
		Metadata: map[string]string{MetadataNamespace: "shop", MetadataName: "orders"},
	}
}

// numbered publishes messages with their numbers.
func numbered(t *testing.T, server *natstest.Server, subject string, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		server.Publish(t, subject, []byte(strconv.Itoa(i)))
	}
}

func pendingOf(t *testing.T, conn *Conn, name string) uint64 {
	t.Helper()
	consumer, err := conn.js.Consumer(t.Context(), testStream, name)
	require.NoError(t, err)
	return consumer.CachedInfo().NumPending
}

func TestAConsumerStartsBehindTheLowestOfThoseItIsAdoptedFrom(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn := connect(t, server.URL())
	awaitConnected(t, conn)
	a := server.AddKymaConsumer(t, testStream, "shop", "orders", "kyma.shop.a")
	b := server.AddKymaConsumer(t, testStream, "shop", "orders", "kyma.shop.b")
	other := server.AddKymaConsumer(t, testStream, "shop", "others", "kyma.shop.a")
	numbered(t, server, "kyma.shop.a", 1, 3)
	numbered(t, server, "kyma.shop.b", 4, 6)
	numbered(t, server, "kyma.shop.a", 7, 8)
	require.Equal(t, []string{"1", "2"}, a.Settle(t, 2))
	require.Equal(t, []string{"4"}, b.Settle(t, 1))

	wanted := ordersConsumer("kyma.shop.a", "kyma.shop.b")
	for range 2 { // the second has nothing to do
		require.NoError(t, conn.AdoptConsumers(t.Context(), testStream, []Consumer{wanted}))
	}
	consumers, err := conn.Consumers(t.Context(), testStream)
	require.NoError(t, err)
	require.Len(t, consumers, 2, "the consumers of the Subscription are gone, that of another stays")
	require.EqualValues(t, 5, pendingOf(t, conn, wanted.Name), "3, 5, 6, 7 and 8: what is settled is delivered no more, and nothing is lost")
	found := consumers[slices.IndexFunc(consumers, func(c Consumer) bool { return c.Name == wanted.Name })]
	require.True(t, wanted.Matches(found), "it is what the controller wants")
	require.Equal(t, []string{"1", "2", "3", "7", "8"}, other.Settle(t, 5))
}

func TestAnInterruptedAdoptionContinues(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn := connect(t, server.URL())
	awaitConnected(t, conn)
	server.AddKymaConsumer(t, testStream, "shop", "orders", "kyma.shop.a")
	numbered(t, server, "kyma.shop.a", 1, 3)
	wanted := ordersConsumer("kyma.shop.a")
	require.NoError(t, conn.createFrom(t.Context(), testStream, wanted, 1), "it ended before the deletion")
	require.NoError(t, conn.AdoptConsumers(t.Context(), testStream, []Consumer{wanted}))
	found, err := conn.KymaConsumers(t.Context(), testStream)
	require.NoError(t, err)
	require.False(t, found.Any())
	require.EqualValues(t, 3, pendingOf(t, conn, wanted.Name))
}

func TestNothingIsAdoptedWhileKymaReceives(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn := connect(t, server.URL())
	awaitConnected(t, conn)
	consumer := server.AddKymaConsumer(t, testStream, "shop", "orders", "kyma.shop.a")
	consumer.Bind(t)
	wanted := ordersConsumer("kyma.shop.a")
	require.Eventually(t, func() bool {
		found, err := conn.KymaConsumers(t.Context(), testStream)
		return err == nil && found.Bound == 1
	}, testTimeout, moment)
	require.ErrorIs(t, conn.AdoptConsumers(t.Context(), testStream, []Consumer{wanted}), ErrBound)
	name := routing.TypeConsumerName("shop/orders/kyma.shop.a")
	require.ErrorIs(t, conn.DropKymaConsumer(t.Context(), testStream, name), ErrBound)
	_, err := conn.js.Consumer(t.Context(), testStream, wanted.Name)
	require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
}

func TestOnlyAConsumerOfKymaIsDropped(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn := connect(t, server.URL())
	awaitConnected(t, conn)
	server.AddKymaConsumer(t, testStream, "shop", "gone", "kyma.shop.a")
	server.AddPushConsumer(t, testStream, "mine", "somebody else's")
	for _, name := range []string{routing.TypeConsumerName("shop/gone/kyma.shop.a"), "mine", "nobody"} {
		require.NoError(t, conn.DropKymaConsumer(t.Context(), testStream, name))
	}
	consumers, err := conn.Consumers(t.Context(), testStream)
	require.NoError(t, err)
	require.Len(t, consumers, 1)
	require.Equal(t, "mine", consumers[0].Name)
}

func TestConsumersAreHandedBackAsKymaMakesThem(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn := connect(t, server.URL())
	awaitConnected(t, conn)
	server.AddKymaConsumer(t, testStream, "shop", "orders", "kyma.shop.a")
	numbered(t, server, "kyma.shop.a", 1, 4)
	wanted := ordersConsumer("kyma.shop.a", "kyma.shop.b")
	require.NoError(t, conn.AdoptConsumers(t.Context(), testStream, []Consumer{wanted}))
	for range 2 {
		require.NoError(t, conn.HandBack(t.Context(), testStream, wanted))
	}
	found, err := conn.KymaConsumers(t.Context(), testStream)
	require.NoError(t, err)
	require.Equal(t, KymaConsumers{Left: 2}, found)
	_, err = conn.js.Consumer(t.Context(), testStream, wanted.Name)
	require.ErrorIs(t, err, jetstream.ErrConsumerNotFound)
	back := server.OpenPushConsumer(t, testStream, routing.TypeConsumerName("shop/orders/kyma.shop.a"))
	require.Equal(t, []string{"1", "2", "3", "4"}, back.Settle(t, 4))

	require.NoError(t, conn.AdoptConsumers(t.Context(), testStream, []Consumer{wanted}), "and to Rouse again")
	require.Zero(t, pendingOf(t, conn, wanted.Name))
}

func TestTheSettingsOfTheStreamAreTold(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	conn := connect(t, server.URL())
	awaitConnected(t, conn)
	server.AddKymaConsumer(t, testStream, "shop", "orders", "kyma.shop.a")
	numbered(t, server, "kyma.shop.a", 1, 4)
	settings, err := conn.StreamSettings(t.Context(), testStream)
	require.NoError(t, err)
	require.EqualValues(t, 4, settings.Messages)
	settings.Messages, settings.Bytes = 0, 0
	require.Equal(t, StreamSettings{
		Replicas: 1, Storage: storageFile, MaxBytes: 700 << 20, MaxMsgs: -1, MaxMsgsPerSubject: 1_000_000,
		DuplicateWindow: DefaultStreamOptions().DuplicateWindow, Retention: "Interest", Discard: "DiscardNew",
	}, settings)
}
