package broker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/routing"
)

func TestConsumerOfARoute(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		maxInFlight int
		orderedBy   string
		want        int
	}{
		"the server holds the limit":            {maxInFlight: 7, want: 7},
		"order leaves room for those who wait":  {maxInFlight: 1, orderedBy: "subject", want: 100},
		"a larger limit with order leaves more": {maxInFlight: 50, orderedBy: "subject", want: 500},
		"no limit leaves without end":           {maxInFlight: 10_000, orderedBy: "subject", want: 1000},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			route := routing.Route{MaxInFlight: tc.maxInFlight, Consumer: routing.ConsumerName("ns", "name")}
			route.Subscription.Namespace, route.Subscription.Name = "ns", "name"
			route.Delivery.OrderedBy = tc.orderedBy
			consumer := ConsumerOf(route)
			require.Equal(t, tc.want, consumer.MaxAckPending)
			require.Equal(t, tc.orderedBy != "", consumer.Ordered)
			key, ours := SubscriptionOf(consumer)
			require.True(t, ours)
			require.Equal(t, route.Subscription, key)
			consumer.Name = "copied"
			_, ours = SubscriptionOf(consumer)
			require.False(t, ours)
		})
	}
}

func TestConsumerOfARouteStartsWhereTheSubscriptionSays(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_700_000_000, 0)
	tests := map[string]struct {
		start routing.StartFrom
		want  StartFrom
	}{
		"from now on":     {},
		"new is the same": {start: routing.StartFrom{Position: eventingv1alpha2.StartNew}},
		"all":             {start: routing.StartFrom{Position: eventingv1alpha2.StartAll}, want: StartFrom{Policy: StartAll}},
		"a time": {
			start: routing.StartFrom{Position: eventingv1alpha2.StartTime, Time: at},
			want:  StartFrom{Policy: StartTime, Time: at},
		},
		"a sequence": {
			start: routing.StartFrom{Position: eventingv1alpha2.StartSequence, Sequence: 7},
			want:  StartFrom{Policy: StartSequence, Sequence: 7},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, ConsumerOf(routing.Route{Delivery: routing.Delivery{StartFrom: tc.start}}).StartFrom)
		})
	}
}

func TestConsumerMetadataHasTheSubscriptionUID(t *testing.T) {
	t.Parallel()
	require.Equal(t, "one", ConsumerOf(routing.Route{UID: "one"}).Metadata[MetadataUID])
	require.NotContains(t, ConsumerOf(routing.Route{}).Metadata, MetadataUID)
}
