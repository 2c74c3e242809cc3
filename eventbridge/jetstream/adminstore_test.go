package jetstream

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/routing"
)

func TestLeftoversOfADeletedSubscriptionAreListed(t *testing.T) {
	t.Parallel()
	name := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: name} }
	consumers := []broker.Consumer{
		{Name: routing.ConsumerName("shop", "b"), Description: "shop/b", Backlog: broker.Backlog{Pending: 1, AckPending: 2}},
		{Name: "of-another-client", Description: "shop/x"},
	}
	require.Equal(t, []admin.Subscription{
		{Namespace: "shop", Name: "a", DeadLetters: 3},
		{Namespace: "shop", Name: "b", Consumer: true, Backlog: 1, AckPending: 2 + 7, WaitingRetries: 4},
		{Namespace: "shop", Name: "c", WaitingRetries: 5},
		{Namespace: "shop", Name: "d", AckPending: 8},
	}, merge(consumers, map[types.NamespacedName]uint64{name("b"): 7, name("d"): 8},
		map[types.NamespacedName]uint64{name("b"): 4, name("c"): 5}, map[types.NamespacedName]uint64{name("a"): 3}))
	require.Empty(t, merge(nil, nil, nil, nil))
}

func TestAStoredDeadLetterIsShownWithTheTypeThatWasPublished(t *testing.T) {
	t.Parallel()
	body := func(kind string) string {
		return `{"specversion":"1.0","id":"1","source":"shop","type":"` + kind + `","originaltype":"order.v1","data":{"n":1.50}}`
	}
	for _, kind := range []string{"kyma.shop.order.v1", "order.v1"} {
		stored := broker.StoredDeadLetter{Type: "order.v1", Body: []byte(body(kind)), Structured: true}
		require.Equal(t, body("order.v1"), string(detailOf(&stored).Event))
	}
}

func TestAStoredDeadLetterIsShownWithItsEventOrItsBytes(t *testing.T) {
	t.Parallel()
	east := time.FixedZone("east", 3600)
	given, published := time.Unix(2, 0), time.Unix(1, 0).UTC()
	stored := broker.StoredDeadLetter{
		Sequence: 5, Subscription: types.NamespacedName{Namespace: "shop", Name: "orders"}, Reason: failure.SinkRejected,
		Message: "sink refused the event", Attempts: 2, Status: 400, Excerpt: "<no>", Time: given.In(east), Subject: "kyma.shop.order.v1",
		Stored: published.In(east), ID: "1", Source: "shop", Type: "order.v1", Body: []byte("{}"), Structured: true,
	}
	want := admin.DeadLetterDetail{
		DeadLetter: admin.DeadLetter{
			Sequence: 5, Namespace: "shop", Subscription: "orders", Reason: "SinkRejected",
			Message: "sink refused the event", Attempts: 2, Status: 400, Excerpt: "<no>", Time: given.UTC(), Subject: "kyma.shop.order.v1",
			Published: &published, ID: "1", Source: "shop", Type: "order.v1",
		},
		Event: []byte("{}"),
	}
	require.Equal(t, want, detailOf(&stored))

	stored.Structured, stored.Stored = false, time.Time{}
	want.Event, want.Body, want.Published = nil, []byte("{}"), nil
	require.Equal(t, want, detailOf(&stored))
}
