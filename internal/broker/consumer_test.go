package broker

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

func TestEnsureConsumerCreatesADurablePullConsumer(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	ensureConsumer(t, conn, Consumer{
		Name: "c1", Description: "ns/orders", Subjects: []string{"kyma.shop.order.v1"},
		Metadata: map[string]string{"rouse.run/subscription": "ns/orders"},
	})

	handle, err := conn.js.Consumer(t.Context(), testStream, "c1")
	require.NoError(t, err)
	config := handle.CachedInfo().Config
	require.Equal(t, "c1", config.Durable)
	require.Equal(t, jetstream.DeliverNewPolicy, config.DeliverPolicy)
	require.Equal(t, jetstream.AckExplicitPolicy, config.AckPolicy)
	require.Equal(t, -1, config.MaxDeliver)
	require.Equal(t, 30*time.Second, config.AckWait)
	require.Equal(t, 1000, config.MaxAckPending)
}

func TestEnsureConsumerChangesInPlaceAndKeepsTheBacklog(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	consumer := Consumer{Name: "c1", Subjects: []string{"kyma.shop.order.v1"}}
	ensureConsumer(t, conn, consumer)
	publishRaw(t, conn, "kyma.shop.order.v1", 3)

	for name, change := range map[string]func(*Consumer){
		"another subject":   func(c *Consumer) { c.Subjects = []string{"kyma.shop.order.v1", "kyma.shop.order.v2"} },
		"other metadata":    func(c *Consumer) { c.Metadata = map[string]string{"key": "value"} },
		"other description": func(c *Consumer) { c.Description = "ns/orders" },
		"other limits":      func(c *Consumer) { c.AckWait, c.MaxAckPending = time.Minute, 17 },
		"order":             func(c *Consumer) { c.Ordered = true },
		"nothing":           func(*Consumer) {},
		"no order":          func(c *Consumer) { c.Ordered = false },
	} {
		change(&consumer)
		ensureConsumer(t, conn, consumer)
		consumers, err := conn.Consumers(t.Context(), testStream)
		require.NoError(t, err, name)
		require.Len(t, consumers, 1, name)
		require.ElementsMatch(t, consumer.Subjects, consumers[0].Subjects, name)
		require.Equal(t, ownMetadata(consumer.Metadata), consumers[0].Metadata, name)
		require.Equal(t, consumer.Description, consumers[0].Description, name)
		require.Equal(t, consumer.ackWait(), consumers[0].AckWait, name)
		require.Equal(t, consumer.maxAckPending(), consumers[0].MaxAckPending, name)
		require.Equal(t, consumer.Ordered, consumers[0].Ordered, name)
		awaitBacklog(t, conn, "c1", Backlog{Pending: 3})
	}
}

func TestEnsureConsumerRefusesWhatJetStreamRefuses(t *testing.T) {
	t.Parallel()
	_, conn := start(t)

	overlapping := Consumer{Name: "c1", Subjects: []string{"kyma.shop.*", "kyma.shop.order"}}
	err := conn.EnsureConsumer(t.Context(), testStream, overlapping)
	require.ErrorIs(t, err, ErrOverlappingSubjects)
	require.ErrorContains(t, err, "kyma.shop.*, kyma.shop.order")

	ensureConsumer(t, conn, Consumer{Name: "c1", Subjects: []string{"kyma.shop.*"}})
	require.ErrorIs(t, conn.EnsureConsumer(t.Context(), testStream, overlapping), ErrOverlappingSubjects)

	require.Error(t, conn.EnsureConsumer(t.Context(), testStream, Consumer{Name: "c2"}))
	require.ErrorIs(t, conn.EnsureConsumer(t.Context(), "nowhere", Consumer{Name: "c2", Subjects: []string{"kyma.a"}}), ErrNoStream)
}

func TestDeleteConsumerTakesAnAbsentOneForDeleted(t *testing.T) {
	t.Parallel()
	_, conn := start(t)
	ensureConsumer(t, conn, Consumer{Name: "c1", Subjects: []string{"kyma.shop.order.v1"}})
	require.NoError(t, conn.DeleteConsumer(t.Context(), testStream, "c1"))
	require.NoError(t, conn.DeleteConsumer(t.Context(), testStream, "c1"))
	require.NoError(t, conn.DeleteConsumer(t.Context(), "nowhere", "c1"))
	_, err := conn.Backlog(t.Context(), testStream, "c1")
	require.ErrorIs(t, err, ErrConsumerNotFound)
	_, err = conn.Backlog(t.Context(), "nowhere", "c1")
	require.ErrorIs(t, err, ErrNoStream)
}

func publishRaw(t *testing.T, conn *Conn, subject string, count int) {
	t.Helper()
	ctx := patient(t)
	for range count {
		_, err := conn.js.Publish(ctx, subject, []byte("{}"))
		require.NoError(t, err)
	}
}

func awaitBacklog(t *testing.T, conn *Conn, consumer string, want Backlog) {
	t.Helper()
	var got Backlog
	require.Eventually(t, func() bool {
		var err error
		got, err = conn.Backlog(t.Context(), testStream, consumer)
		return err == nil && got == want
	}, testTimeout, moment, "backlog: want %+v", want)
}
