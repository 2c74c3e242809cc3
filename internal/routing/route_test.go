package routing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
)

func subscription(change func(*eventingv1alpha2.SubscriptionSpec)) *eventingv1alpha2.Subscription {
	sub := &eventingv1alpha2.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"},
		Spec: eventingv1alpha2.SubscriptionSpec{
			Sink:         "http://price.shop.svc.cluster.local",
			TypeMatching: eventingv1alpha2.TypeMatchingStandard,
			Source:       "com.example",
			Types:        []string{"order.received.v1"},
			Config:       map[string]string{"maxInFlightMessages": "10"},
		},
	}
	change(&sub.Spec)
	return sub
}

func TestFromSubscription(t *testing.T) {
	t.Parallel()

	route, err := FromSubscription(subscription(func(spec *eventingv1alpha2.SubscriptionSpec) {
		spec.Sink = "https://price.shop.svc.cluster.local:8443/in?x=1"
		spec.Types = []string{"order.received.v1", "order.chan ged.v1", "order.received.v1", "order.changed.v1"}
		spec.Config = map[string]string{"maxInFlightMessages": "3"}
	}), Policy{})

	require.NoError(t, err)
	require.Equal(t, Route{
		Subscription: types.NamespacedName{Namespace: "shop", Name: "orders"},
		Consumer:     "644f7b8cf5aca6aec34d5cd7d59560ba",
		Subjects: []string{
			"kyma.comexample.order.received.v1", "kyma.comexample.order.changed.v1",
			"kyma.rouse-redelivery.644f7b8cf5aca6aec34d5cd7d59560ba",
		},
		Redelivery: "kyma.rouse-redelivery.644f7b8cf5aca6aec34d5cd7d59560ba",
		Types: []TypeMapping{
			{
				Original: "order.received.v1", Clean: "order.received.v1",
				Subject: "kyma.comexample.order.received.v1", ConsumerName: "9764c16f341282f7392df217d8691e37",
			},
			{
				Original: "order.chan ged.v1", Clean: "order.changed.v1",
				Subject: "kyma.comexample.order.changed.v1", ConsumerName: "829cfec49866d2afab1c00d39feed31e",
			},
			{
				Original: "order.changed.v1", Clean: "order.changed.v1",
				Subject: "kyma.comexample.order.changed.v1", ConsumerName: "829cfec49866d2afab1c00d39feed31e",
			},
		},
		Sink:        "https://price.shop.svc.cluster.local:8443/in?x=1",
		Service:     types.NamespacedName{Namespace: "shop", Name: "price"},
		Port:        8443,
		MaxInFlight: 3,
	}, route)
}

func TestFromSubscriptionWithExactMatching(t *testing.T) {
	t.Parallel()

	route, err := FromSubscription(subscription(func(spec *eventingv1alpha2.SubscriptionSpec) {
		spec.TypeMatching = eventingv1alpha2.TypeMatchingExact
		spec.Source = ""
		spec.Types = []string{"shop.order/1.v1", "shop.order.*", "shop.order.v1"}
	}), Policy{})

	require.NoError(t, err)
	require.Equal(t, []string{"kyma.shop.order/1.v1", "kyma.shop.order.*", route.Redelivery}, route.Subjects)
	require.Equal(t, "shop.order/1.v1", route.Types[0].Clean)
	require.Len(t, route.Types, 3)
}

func TestFromSubscriptionFindsTheService(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		sink     string
		wantPort int32
	}{
		"http has port 80":                  {"http://price.shop.svc.cluster.local", 80},
		"https has port 443":                {"https://price.shop.svc.cluster.local/", 443},
		"an explicit port takes precedence": {"http://price.shop.svc.cluster.local:8080/a/b", 8080},
		"an empty port is ignored":          {"http://price.shop.svc.cluster.local:", 80},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			route, err := FromSubscription(subscription(func(spec *eventingv1alpha2.SubscriptionSpec) { spec.Sink = tc.sink }), Policy{})
			require.NoError(t, err)
			require.Equal(t, types.NamespacedName{Namespace: "shop", Name: "price"}, route.Service)
			require.Equal(t, tc.wantPort, route.Port)
			require.Equal(t, tc.sink, route.Sink)
		})
	}
}

func TestFromSubscriptionRefusesSinks(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"nothing":                              "",
		"no scheme":                            "price.shop.svc.cluster.local",
		"another scheme":                       "ftp://price.shop.svc.cluster.local",
		"not a URL":                            "http://price.shop.svc.cluster.local/%zz",
		"another namespace":                    "http://price.bank.svc.cluster.local",
		"a host outside the cluster":           "http://example.com",
		"an address":                           "http://169.254.169.254/latest",
		"an address with brackets":             "http://[::1]:80",
		"a name that only ends like a Service": "http://price.shop.evilsvc.cluster.local",
		"a host below a Service":               "http://pod.price.shop.svc.cluster.local",
		"a host hidden behind credentials":     "http://price.shop.svc.cluster.local@example.com",
		"no Service":                           "http://.shop.svc.cluster.local",
		"a Service name that is not a label":   "http://pri_ce.shop.svc.cluster.local",
		"a trailing dot":                       "http://price.shop.svc.cluster.local.",
		"port zero":                            "http://price.shop.svc.cluster.local:0",
		"a port that is too large":             "http://price.shop.svc.cluster.local:65536",
	}
	for name, sink := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := FromSubscription(subscription(func(spec *eventingv1alpha2.SubscriptionSpec) { spec.Sink = sink }), Policy{})
			require.ErrorIs(t, err, ErrInvalidSink)
		})
	}
}

func TestFromSubscriptionRefusesSubjects(t *testing.T) {
	t.Parallel()
	exact := eventingv1alpha2.TypeMatchingExact
	tests := map[string]struct {
		matching eventingv1alpha2.TypeMatching
		source   string
		types    []string
	}{
		"no types":                           {source: "shop"},
		"an empty source":                    {types: []string{"order.v1"}},
		"a source that is empty when clean":  {source: "./*", types: []string{"order.v1"}},
		"a type with an empty segment":       {source: "shop", types: []string{"a.b", "order..v1"}},
		"a segment that is empty when clean": {source: "shop", types: []string{"order.*.v1"}},
		"white space in an exact type":       {matching: exact, types: []string{"order. .v1"}},
		"a tail wildcard in the middle":      {matching: exact, types: []string{"order.>.v1"}},
		"a tail wildcard inside a token":     {matching: exact, types: []string{"order.a>b"}},
		"a wildcard inside a token":          {matching: exact, types: []string{"order.*b"}},
		"a wildcard behind a token":          {matching: exact, types: []string{"order.b*.v1"}},
		"an empty exact type":                {matching: exact, types: []string{""}},
		"a type longer than a protocol line": {matching: exact, types: []string{"order." + strings.Repeat("x", MaxSubject)}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := FromSubscription(subscription(func(spec *eventingv1alpha2.SubscriptionSpec) {
				spec.TypeMatching, spec.Source, spec.Types = tc.matching, tc.source, tc.types
			}), Policy{})
			require.ErrorIs(t, err, ErrInvalidSubject)
		})
	}
}

func TestFromSubscriptionBoundsTheDeliveries(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		config map[string]string
		want   int
	}{
		"as given":                                   {map[string]string{"maxInFlightMessages": "25"}, 25},
		"default without config":                     {nil, 10},
		"default without the key":                    {map[string]string{"other": "1"}, 10},
		"default for a value that is not an integer": {map[string]string{"maxInFlightMessages": "many"}, 10},
		"at least one for zero":                      {map[string]string{"maxInFlightMessages": "0"}, 1},
		"at least one for negative":                  {map[string]string{"maxInFlightMessages": "-3"}, 1},
		"the largest for a million":                  {map[string]string{"maxInFlightMessages": "1000000"}, 10_000},
		"the largest for any number":                 {map[string]string{"maxInFlightMessages": "99999999999999999999999"}, 10_000},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			route, err := FromSubscription(subscription(func(spec *eventingv1alpha2.SubscriptionSpec) { spec.Config = tc.config }), Policy{})
			require.NoError(t, err)
			require.Equal(t, tc.want, route.MaxInFlight)
			require.Equal(t, tc.want == 10_000, AsksForTooMany(&eventingv1alpha2.SubscriptionSpec{Config: tc.config}))
		})
	}
}

func TestConsumerName(t *testing.T) {
	t.Parallel()
	require.Equal(t, "644f7b8cf5aca6aec34d5cd7d59560ba", ConsumerName("shop", "orders"))
	require.NotEqual(t, ConsumerName("a", "b"), ConsumerName("b", "a"))
}

func TestFromSubscriptionReadsDelivery(t *testing.T) {
	t.Parallel()
	at := metav1.NewTime(time.Unix(1_700_000_000, 0).UTC())

	route, err := FromSubscription(subscription(func(spec *eventingv1alpha2.SubscriptionSpec) {
		spec.Config = map[string]string{"maxInFlightMessages": "3"}
		spec.Paused = true
		spec.Filter = &eventingv1alpha2.Filter{CEL: "true"}
		spec.Delivery = &eventingv1alpha2.Delivery{
			MaxAttempts: ptr.To[int32](5),
			Backoff: &eventingv1alpha2.Backoff{
				Policy: eventingv1alpha2.BackoffLinear, Delay: &metav1.Duration{Duration: time.Second}, MaxDelay: &metav1.Duration{Duration: time.Minute},
			},
			Timeout:     &metav1.Duration{Duration: 7 * time.Second},
			MaxInFlight: ptr.To[int32](42),
			RateLimit:   &eventingv1alpha2.RateLimit{EventsPerSecond: 9},
			OrderedBy:   "subject",
			StartFrom:   &eventingv1alpha2.StartFrom{Position: eventingv1alpha2.StartTime, Time: &at},
			DeadLetter:  &eventingv1alpha2.DeadLetter{Sink: "http://dead-letters.shop.svc.cluster.local:81/in"},
		}
	}), Policy{})

	require.NoError(t, err)
	require.Equal(t, 42, route.MaxInFlight, "it wins over the config")
	require.True(t, route.Paused)
	require.Equal(t, "true", route.Filter.CEL)
	require.Equal(t, Delivery{
		MaxAttempts:     5,
		Backoff:         Backoff{Policy: eventingv1alpha2.BackoffLinear, Delay: time.Second, MaxDelay: time.Minute},
		Timeout:         7 * time.Second,
		EventsPerSecond: 9,
		OrderedBy:       "subject",
		StartFrom:       StartFrom{Position: eventingv1alpha2.StartTime, Time: at.Time},
	}, route.Delivery)
	require.Equal(t, &Route{
		Subscription:  route.Subscription,
		Consumer:      route.Consumer,
		Subjects:      []string{"rouse.deadletter.shop.orders"},
		Sink:          "http://dead-letters.shop.svc.cluster.local:81/in",
		Service:       types.NamespacedName{Namespace: "shop", Name: "dead-letters"},
		Port:          81,
		MaxInFlight:   10,
		Paused:        true,
		OfDeadLetters: true,
	}, route.DeadLetters, "the delivery settings must apply only to spec.sink")
}

func TestSinkOfDeadLettersFollowsTheRulesOfSinks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		sink, problem string
		policy        Policy
		want          Route
	}{
		"none":                            {sink: "", problem: "must not be empty"},
		"not a URL":                       {sink: "dead-letters", problem: "must have URL scheme 'http' or 'https'"},
		"another namespace":               {sink: "http://dead-letters.bank.svc.cluster.local", problem: "must have the same namespace as the subscriber: bank"},
		"another cluster":                 {sink: "https://api.example.com", problem: "must have valid sink URL suffix svc.cluster.local"},
		"another namespace, as allowed":   {sink: "http://dead-letters.bank.svc.cluster.local", policy: Policy{AllowedSinkHosts: []string{"*.bank.svc.cluster.local"}}, want: Route{Service: types.NamespacedName{Namespace: "bank", Name: "dead-letters"}, Port: 80}},
		"outside the cluster, as allowed": {sink: "https://api.example.com/in", policy: Policy{AllowedSinkHosts: []string{"api.example.com"}}, want: Route{Port: 443, External: true}},
		"never":                           {sink: "http://169.254.169.254", policy: Policy{AllowedSinkHosts: []string{"169.254.169.254"}}, problem: "must have valid sink URL suffix svc.cluster.local"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			route, err := FromSubscription(subscription(func(spec *eventingv1alpha2.SubscriptionSpec) {
				spec.Delivery = &eventingv1alpha2.Delivery{DeadLetter: &eventingv1alpha2.DeadLetter{Sink: tc.sink}}
			}), tc.policy)
			if tc.problem != "" {
				require.ErrorIs(t, err, ErrInvalidSink)
				require.ErrorContains(t, err, tc.problem)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, Route{Service: route.DeadLetters.Service, Port: route.DeadLetters.Port, External: route.DeadLetters.External})
		})
	}
}

func TestWithDeadLettersYieldsEachRouteBeforeItsDeadLetters(t *testing.T) {
	t.Parallel()
	routes := []Route{{Consumer: "a", DeadLetters: &Route{Consumer: "a", OfDeadLetters: true}}, {Consumer: "b"}}
	var got []string
	for route := range WithDeadLetters(routes) {
		got = append(got, fmt.Sprint(route.Consumer, route.OfDeadLetters))
	}
	require.Equal(t, []string{"afalse", "atrue", "bfalse"}, got)
	for range WithDeadLetters(routes) {
		break
	}
}

func TestWildcardCoversTheRedeliverySubject(t *testing.T) {
	t.Parallel()
	route, err := FromSubscription(subscription(func(spec *eventingv1alpha2.SubscriptionSpec) {
		spec.TypeMatching = eventingv1alpha2.TypeMatchingExact
		spec.Types = []string{"*.>"}
	}), Policy{})
	require.NoError(t, err)
	require.Equal(t, []string{"kyma.*.>"}, route.Subjects)
	require.True(t, IsRedelivery(route.Redelivery))
	require.False(t, IsRedelivery("kyma.shop.order.v1"))
}

func TestReplicasDivideDeliveriesAndPrefetchedEvents(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		limit, replicas  int
		deliveries, held int
	}{
		"the default, alone":                      {10, 1, 10, 128},
		"the number of replicas not known":        {10, 0, 10, 128},
		"the default over two":                    {10, 2, 5, 64},
		"the remainder of the division is unused": {10, 3, 3, 42},
		"more replicas than deliveries":           {8, 20, 1, 6},
		"many":                                    {10_000, 2, 5000, 64},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deliveries, held := Route{MaxInFlight: tc.limit}.Share(tc.replicas)
			require.Equal(t, []int{tc.deliveries, tc.held}, []int{deliveries, held})
		})
	}
}

func TestNoEventsArePrefetchedWhereOnlyTheServerBoundsDeliveries(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		route Route
		want  int
	}{
		"the default":    {Route{MaxInFlight: 10}, 128},
		"few":            {Route{MaxInFlight: 7}, 0},
		"one at a time":  {Route{MaxInFlight: 1}, 0},
		"ordered events": {Route{MaxInFlight: 100, Delivery: Delivery{OrderedBy: "key"}}, 0},
		"dead letters":   {Route{MaxInFlight: 100, OfDeadLetters: true}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.route.Ahead())
		})
	}
}
