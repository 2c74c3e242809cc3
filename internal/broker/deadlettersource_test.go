package broker

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/routing"
)

func ensureDeadLetterConsumer(t *testing.T, conn *Conn, subscription types.NamespacedName) {
	t.Helper()
	require.NoError(t, conn.EnsureConsumer(t.Context(), DeadLetterStream, Consumer{
		Name:          routing.ConsumerName(subscription.Namespace, subscription.Name),
		Subjects:      []string{routing.DeadLetterSubject(subscription)},
		StartFrom:     StartFrom{Policy: StartAll},
		MaxAckPending: MaxDeadLettersPending,
	}))
}

func TestDeadLettersOfASubscriptionReachTheirSinkAndAreKept(t *testing.T) {
	t.Parallel()
	_, conn := startWithConsumers(t, orders)
	addDeadLetters(t, conn, orders, reasonRefused, 1, 2)
	addDeadLetters(t, conn, parcels, reasonRefused, 1, 1)
	ensureDeadLetterConsumer(t, conn, orders)
	ensureDeadLetterConsumer(t, conn, orders) // as a second pass does
	addDeadLetters(t, conn, orders, reasonExhausted, 3, 1)

	type delivery struct {
		id      string
		reason  failure.Reason
		attempt int
	}
	delivered := make(chan delivery, 10)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- NewDeadLetterSource(conn, orders, 4).Receive(ctx, nil, func(m *DeadLetterMessage) {
			ev, err := m.Event()
			if err != nil {
				t.Error(err)
				return
			}
			d := delivery{ev.ID, failure.Reason(ev.Extension(ExtensionDeadLetterReason)), m.Attempt()}
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
	require.Eventually(t, func() bool {
		backlog, err := conn.Backlog(t.Context(), DeadLetterStream, routing.ConsumerName(orders.Namespace, orders.Name))
		return err == nil && backlog.Total() == 0
	}, testTimeout, moment)
	cancel()
	require.NoError(t, await(t, ended))
	require.Equal(t, map[types.NamespacedName]uint64{orders: 3, parcels: 1}, counts(t, conn), "a dead letter is kept though its sink took it")

	done, err := conn.Redrive(t.Context(), testStream, selectionOf(orders, ""))
	require.NoError(t, err)
	require.Equal(t, Redriven{Redriven: 3}, done, "dead letters with a sink can be redriven as others")
	require.Len(t, takeAll(t, conn, orders), 3)
}

func TestDeadLetterSourceBoundsWhatItHoldsAndHandsOutAll(t *testing.T) {
	t.Parallel()
	const deadLetters = 5 * maxDeadLettersHeld
	_, conn := startWithConsumers(t)
	addDeadLetters(t, conn, orders, reasonRefused, 0, deadLetters)
	ensureDeadLetterConsumer(t, conn, orders)
	source := NewDeadLetterSource(conn, orders, 10)
	var mu sync.Mutex
	var held []*DeadLetterMessage
	peak, seen := 0, map[uint64]bool{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- source.Receive(ctx, nil, func(m *DeadLetterMessage) {
			mu.Lock()
			defer mu.Unlock()
			held = append(held, m)
			seen[m.Sequence()] = true
			peak = max(peak, len(held))
		})
	}()
	for took := 0; took < deadLetters; {
		require.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(held) >= min(maxDeadLettersHeld/2+1, deadLetters-took) // with more it may rest
		}, testTimeout, moment, "it goes on when dead letters are settled")
		mu.Lock()
		taken := held
		held = nil
		mu.Unlock()
		for _, m := range taken {
			require.NoError(t, m.Ack(t.Context()))
		}
		took += len(taken)
	}
	cancel()
	require.NoError(t, await(t, ended))
	require.Len(t, seen, deadLetters)
	require.Less(t, peak, 2*maxDeadLettersHeld, "the rest waits at the server")
}

func TestAFullDeadLetterSourceStops(t *testing.T) {
	t.Parallel()
	_, conn := startWithConsumers(t)
	addDeadLetters(t, conn, orders, reasonRefused, 0, 2*maxDeadLettersHeld)
	ensureDeadLetterConsumer(t, conn, orders)
	source := NewDeadLetterSource(conn, orders, 10)
	stop := make(chan struct{})
	ended := make(chan error, 1)
	go func() { ended <- source.Receive(t.Context(), stop, func(*DeadLetterMessage) {}) }()
	require.Eventually(t, func() bool { return source.held.Load() >= maxDeadLettersHeld }, testTimeout, moment)
	close(stop)
	require.NoError(t, await(t, ended))
}

func TestEveryDeadLetterIsAnEventWithItsReason(t *testing.T) {
	t.Parallel()
	why := map[string]string{
		ExtensionDeadLetterReason: "SinkRejected", ExtensionDeadLetterMessage: "sink refused the event", ExtensionDeadLetterAttempts: "3", ExtensionDeadLetterStatus: "422",
		ExtensionDeadLetterExcerpt: `no "db"`, ExtensionDeadLetterSubscription: "shop/orders",
		ExtensionDeadLetterTime: "2023-11-14T22:13:20Z",
	}
	silent := maps.Clone(why)
	delete(silent, ExtensionDeadLetterStatus)
	delete(silent, ExtensionDeadLetterExcerpt)
	for name, tc := range map[string]struct {
		body       string
		header     nats.Header
		deadLetter DeadLetter
		want       cloudevent.Event
		why        map[string]string
	}{
		"an event in JSON": {
			body: string(structuredEvent("1")),
			want: cloudevent.Event{ID: "1", Source: "shop", Type: "order.v1", Data: []byte(`{"price":1.50, "n":12345678901234567890}`)},
		},
		"an event that was a dead letter before": {
			body: `{"specversion":"1.0","id":"1","source":"shop","type":"order.v1","rousereason":"older","rouseattempts":16,"rousestatus":500}`,
			want: cloudevent.Event{ID: "1", Source: "shop", Type: "order.v1"},
		},
		"no answer, and another dead letter before": {
			body:       `{"specversion":"1.0","id":"1","source":"shop","type":"order.v1","rousestatus":500,"rouseexcerpt":"older"}`,
			deadLetter: DeadLetter{Subscription: orders, Reason: reasonRefused, Attempts: 3},
			want:       cloudevent.Event{ID: "1", Source: "shop", Type: "order.v1"},
			why:        silent,
		},
		"an event in binary mode": {
			body:   "\x00bytes",
			header: nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"shop"}, "ce-type": {"order.v1"}},
			want:   cloudevent.Event{ID: "1", Source: "shop", Type: "order.v1", Data: []byte("\x00bytes")},
		},
		"no event": {
			body: "not an event",
			want: cloudevent.Event{
				ID: "rouse-dead-letters/7", Source: "/namespaces/shop/subscriptions/orders", Type: TypeUndecodable,
				DataContentType: "application/octet-stream", Data: []byte("not an event"),
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deadLetter := tc.deadLetter
			if deadLetter.Reason == "" {
				deadLetter = DeadLetter{Subscription: orders, Reason: reasonRefused, Attempts: 3, Status: 422, BodyExcerpt: "no\x1b \"db\""}
			}
			rejected := given(nil, 1, []byte(tc.body))
			rejected.raw.Header = tc.header
			stored := deadLetter.message(rejected, time.Unix(1_700_000_000, 0))
			m := DeadLetterMessage{Message: &Message{raw: stored, metadata: &nats.MsgMetadata{Sequence: nats.SequencePair{Stream: 7}}}}
			ev, err := m.Event()
			require.NoError(t, err)
			require.NoError(t, ev.Validate())
			explained := map[string]string{}
			for _, extension := range ev.Extensions {
				explained[extension.Name] = extension.Value
			}
			delete(explained, ExtensionOriginalType)
			if tc.why == nil {
				tc.why = why
			}
			require.Equal(t, tc.why, explained)
			ev.Extensions = nil
			require.Equal(t, tc.want, ev)
		})
	}
}
