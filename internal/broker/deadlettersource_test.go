package broker

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

func TestLettersOfASubscriptionReachTheirSinkAndAreKept(t *testing.T) {
	t.Parallel()
	_, conn := startWithConsumers(t, orders)
	addLetters(t, conn, orders, reasonRefused, 1, 2)
	addLetters(t, conn, parcels, reasonRefused, 1, 1)
	require.NoError(t, conn.EnsureConsumer(t.Context(), DeadLetterStream, DeadLetterConsumer(orders)))
	require.NoError(t, conn.EnsureConsumer(t.Context(), DeadLetterStream, DeadLetterConsumer(orders)), "it is made once")
	addLetters(t, conn, orders, reasonExhausted, 3, 1)

	ctx, cancel := context.WithCancel(t.Context())
	type delivery struct {
		id, reason string
		attempt    int
	}
	delivered := make(chan delivery, 10)
	ended := make(chan error, 1)
	go func() {
		ended <- NewLetterSource(conn, orders, 4).Receive(ctx, nil, func(m *LetterMessage) {
			ev, err := m.Event()
			if err != nil {
				t.Error(err)
				return
			}
			d := delivery{ev.ID, ev.Extension(ExtensionDeadLetterReason), m.Attempt()}
			if ev.ID == "2" && d.attempt == 1 {
				err = m.Retry(ctx, 0)
			} else {
				err = m.Ack(ctx)
			}
			if err != nil {
				t.Error(err)
			}
			delivered <- d
		})
	}()
	got := map[delivery]int{}
	for range 4 {
		got[await(t, delivered)]++
	}
	require.Equal(t, map[delivery]int{
		{"1", reasonRefused, 1}: 1, {"2", reasonRefused, 1}: 1, {"2", reasonRefused, 2}: 1, {"3", reasonExhausted, 1}: 1,
	}, got)
	cancel()
	require.NoError(t, await(t, ended))
	require.Equal(t, map[types.NamespacedName]uint64{orders: 3, parcels: 1}, counts(t, conn), "a letter is kept though its sink took it")

	done, err := conn.Redrive(t.Context(), testStream, selectionOf(orders, ""))
	require.NoError(t, err)
	require.Equal(t, Redriven{Redriven: 3}, done, "letters with a sink can be redriven as others")
	require.Len(t, takeAll(t, conn, orders), 3)
	require.NoError(t, conn.DeleteConsumer(t.Context(), DeadLetterStream, DeadLetterConsumer(orders).Name))
}
