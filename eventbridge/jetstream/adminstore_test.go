package jetstream

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/eventbridge/admin"
	"github.com/rouse-run/rouse/internal/broker"
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
