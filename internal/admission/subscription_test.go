package admission

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/routing"
)

type spec = eventingv1alpha2.SubscriptionSpec

func subscriptionWith(change func(*spec)) *eventingv1alpha2.Subscription {
	sub := &eventingv1alpha2.Subscription{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "orders"},
		Spec: spec{
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

func deadLettersTo(sink string) *eventingv1alpha2.Delivery {
	return &eventingv1alpha2.Delivery{DeadLetter: &eventingv1alpha2.DeadLetter{Sink: sink}}
}

func TestValidSubscriptionIsAccepted(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*spec){
		"a plain Subscription":                    func(*spec) {},
		"exact matching":                          func(s *spec) { s.TypeMatching = "exact" },
		"exact matching without a source":         func(s *spec) { s.TypeMatching, s.Source = "exact", "" },
		"exact matching of the old names":         func(s *spec) { s.TypeMatching, s.Types = "exact", []string{"sap.kyma.custom.a.b.v1"} },
		"the old prefix elsewhere in a type":      func(s *spec) { s.Types = []string{"my.sap.kyma.custom.v1"} },
		"a URI as source":                         func(s *spec) { s.Source = "https://example.com/shop?x=1#y" },
		"a type of two segments":                  func(s *spec) { s.Types = []string{"order.v1"} },
		"no config":                               func(s *spec) { s.Config = nil },
		"unknown config keys":                     func(s *spec) { s.Config = map[string]string{"clientId": "x", "pause": "true"} },
		"a limit of zero":                         func(s *spec) { s.Config = map[string]string{"maxInFlightMessages": "0"} },
		"a negative limit":                        func(s *spec) { s.Config = map[string]string{"maxInFlightMessages": "-1"} },
		"a QoS of AT_LEAST_ONCE":                  func(s *spec) { s.Config = map[string]string{"qos": "AT_LEAST_ONCE"} },
		"a QoS with hyphens":                      func(s *spec) { s.Config = map[string]string{"qos": "AT-MOST-ONCE"} },
		"OAuth 2.0 with client credentials":       func(s *spec) { s.Config = map[string]string{"type": "oauth2", "grantType": "client_credentials"} },
		"a sink of dead letters":                  func(s *spec) { s.Delivery = deadLettersTo("https://dead-letters.shop.svc.cluster.local:8443/a?b=c") },
		"a sink with a port":                      func(s *spec) { s.Sink = "http://price.shop.svc.cluster.local:8080" },
		"a sink with https, a path and arguments": func(s *spec) { s.Sink = "https://price.shop.svc.cluster.local/a/b?c=d" },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sub := subscriptionWith(change)
			require.Empty(t, Subscription(sub, routing.Policy{}))

			_, err := routing.FromSubscription(sub, routing.Policy{})
			require.NoError(t, err, "a valid Subscription must have a route")
		})
	}
}

func TestInvalidSubscriptionIsRejected(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*spec)
		want   string
	}{
		"no type matching": {
			func(s *spec) { s.TypeMatching = "" },
			`spec.typeMatching: Invalid value: "": must be a valid TypeMatching value exact or standard`,
		},
		"an unknown type matching": {
			func(s *spec) { s.TypeMatching = "fuzzy" },
			`spec.typeMatching: Invalid value: "fuzzy": must be a valid TypeMatching value exact or standard`,
		},
		"an invalid filter": {
			func(s *spec) { s.Filter = &eventingv1alpha2.Filter{Prefix: map[string]string{"No Name": "x"}} },
			`spec.filter: Invalid value: spec.filter.prefix.No Name: is not the name of an attribute; use lower-case letters and digits only`,
		},
		"a filter without a condition": {
			func(s *spec) { s.Filter = &eventingv1alpha2.Filter{} },
			`spec.filter: Invalid value: spec.filter: has no condition; set cel, exact, prefix, suffix, all, any or not, and check their spelling, or remove it to take every event`,
		},
		"a sink elsewhere with a password": {
			func(s *spec) { s.Sink = "https://me:secret@api.example.com/in" },
			`spec.sink: Invalid value: "https://me:xxxxx@api.example.com/in": must have valid sink URL suffix svc.cluster.local`,
		},
		"no source": {
			func(s *spec) { s.Source = "" },
			`spec.source: Invalid value: "": must not be empty`,
		},
		"a malformed source": {
			func(s *spec) { s.Source = "s%ourc%e" },
			`spec.source: Invalid value: "s%ourc%e": must be valid as per RFC 3986`,
		},
		"a malformed source with exact matching": {
			func(s *spec) { s.TypeMatching, s.Source = "exact", "s%ourc%e" },
			`spec.source: Invalid value: "s%ourc%e": must be valid as per RFC 3986`,
		},
		"no types": {
			func(s *spec) { s.Types = []string{} },
			`spec.types: Invalid value: "": must not be empty`,
		},
		"types that are given twice": {
			func(s *spec) { s.Types = []string{"a.v1", "b.v1", "a.v1", "c.v1", "b.v1", "a.v1"} },
			`spec.types: Invalid value: "a.v1,b.v1": must not have duplicate types`,
		},
		"an empty type": {
			func(s *spec) { s.Types = []string{"a.v1", ""} },
			`spec.types: Invalid value: "": must not be of length zero`,
		},
		"a type of one segment": {
			func(s *spec) { s.Types = []string{"order"} },
			`spec.types: Invalid value: "order": must have minimum 2 segments`,
		},
		"a type of one segment with exact matching": {
			func(s *spec) { s.TypeMatching, s.Types = "exact", []string{"order"} },
			`spec.types: Invalid value: "order": must have minimum 2 segments`,
		},
		"a type with the old prefix": {
			func(s *spec) { s.Types = []string{"sap.kyma.custom.shop.order.v1"} },
			`spec.types: Invalid value: "sap.kyma.custom.shop.order.v1": must not have sap.kyma.custom as type prefix`,
		},
		"only the first bad type": {
			func(s *spec) { s.Types = []string{"a.v1", "order", ""} },
			`spec.types: Invalid value: "order": must have minimum 2 segments`,
		},
		"duplicates and the first bad type": {
			func(s *spec) { s.Types = []string{"", ""} },
			`[spec.types: Invalid value: "": must not have duplicate types, spec.types: Invalid value: "": must not be of length zero]`,
		},
		"a limit that is not a number": {
			func(s *spec) { s.Config = map[string]string{"maxInFlightMessages": "ten"} },
			`spec.config: Invalid value: "ten": maxInFlightMessages must be a stringified int value`,
		},
		"a limit that is empty": {
			func(s *spec) { s.Config = map[string]string{"maxInFlightMessages": ""} },
			`spec.config: Invalid value: "": maxInFlightMessages must be a stringified int value`,
		},
		"an unknown QoS": {
			func(s *spec) { s.Config = map[string]string{"qos": "EXACTLY_ONCE"} },
			`spec.config: Invalid value: "EXACTLY_ONCE": must be a valid QoS value AT_LEAST_ONCE or AT_MOST_ONCE`,
		},
		"an unknown kind of authentication": {
			func(s *spec) { s.Config = map[string]string{"type": "basic"} },
			`spec.config: Invalid value: "basic": must be a valid Auth Type value oauth2`,
		},
		"an unknown grant": {
			func(s *spec) { s.Config = map[string]string{"grantType": "password"} },
			`spec.config: Invalid value: "password": must be a valid Grant Type value client_credentials`,
		},
		"an empty sink of dead letters": {
			func(s *spec) { s.Delivery = deadLettersTo("") },
			`spec.delivery.deadLetter.sink: Invalid value: "": must not be empty`,
		},
		"a sink of dead letters outside the cluster, with a password": {
			func(s *spec) { s.Delivery = deadLettersTo("https://me:secret@api.example.com") },
			`spec.delivery.deadLetter.sink: Invalid value: "https://me:xxxxx@api.example.com": must have valid sink URL suffix svc.cluster.local`,
		},
		"a sink of dead letters below a Service": {
			func(s *spec) { s.Delivery = deadLettersTo("http://a.dead-letters.shop.svc.cluster.local") },
			`spec.delivery.deadLetter.sink: Invalid value: "http://a.dead-letters.shop.svc.cluster.local": must have sink URL with 5 sub-domains: a.dead-letters.shop.svc.cluster.local`,
		},
		"a sink of dead letters in another namespace": {
			func(s *spec) { s.Delivery = deadLettersTo("http://dead-letters.bank.svc.cluster.local") },
			`spec.delivery.deadLetter.sink: Invalid value: "http://dead-letters.bank.svc.cluster.local": must have the same namespace as the subscriber: bank`,
		},
		"no sink": {
			func(s *spec) { s.Sink = "" },
			`spec.sink: Invalid value: "": must not be empty`,
		},
		"a sink without a scheme": {
			func(s *spec) { s.Sink = "price.shop.svc.cluster.local" },
			`spec.sink: Invalid value: "price.shop.svc.cluster.local": must have URL scheme 'http' or 'https'`,
		},
		"a sink with another scheme": {
			func(s *spec) { s.Sink = "nats://price.shop.svc.cluster.local" },
			`spec.sink: Invalid value: "nats://price.shop.svc.cluster.local": must have URL scheme 'http' or 'https'`,
		},
		"a sink that is not a URL": {
			func(s *spec) { s.Sink = "http://price.shop.svc.cluster.local:port" },
			`spec.sink: Invalid value: "http://price.shop.svc.cluster.local:port": must be valid as per RFC 3986`,
		},
		"a sink outside the cluster": {
			func(s *spec) { s.Sink = "https://example.com" },
			`spec.sink: Invalid value: "https://example.com": must have valid sink URL suffix svc.cluster.local`,
		},
		"a sink with an ambiguous host": {
			func(s *spec) { s.Sink = "http://price.shop.svc.cluster.local@example.com" },
			`spec.sink: Invalid value: "http://price.shop.svc.cluster.local@example.com": must have valid sink URL suffix svc.cluster.local`,
		},
		"a sink with a host that only ends like a Service's": {
			func(s *spec) { s.Sink = "http://price.shop.mysvc.cluster.local" },
			`spec.sink: Invalid value: "http://price.shop.mysvc.cluster.local": must have valid sink URL suffix svc.cluster.local`,
		},
		"a sink without a namespace": {
			func(s *spec) { s.Sink = "http://price.svc.cluster.local:8080" },
			`spec.sink: Invalid value: "http://price.svc.cluster.local:8080": must have sink URL with 5 sub-domains: price.svc.cluster.local`,
		},
		"a sink below a Service": {
			func(s *spec) { s.Sink = "http://pod.price.shop.svc.cluster.local" },
			`spec.sink: Invalid value: "http://pod.price.shop.svc.cluster.local": must have sink URL with 5 sub-domains: pod.price.shop.svc.cluster.local`,
		},
		"a sink in another namespace": {
			func(s *spec) { s.Sink = "http://price.bank.svc.cluster.local" },
			`metadata.namespace: Invalid value: "shop": must have the same namespace as the subscriber: bank`,
		},
		"everything, in order": {
			func(s *spec) {
				*s = spec{TypeMatching: "no", Types: []string{"x"}, Config: map[string]string{"grantType": "no", "maxInFlightMessages": "no"}}
			},
			`[spec.typeMatching: Invalid value: "no": must be a valid TypeMatching value exact or standard, ` +
				`spec.source: Invalid value: "": must not be empty, ` +
				`spec.types: Invalid value: "x": must have minimum 2 segments, ` +
				`spec.config: Invalid value: "no": maxInFlightMessages must be a stringified int value, ` +
				`spec.config: Invalid value: "no": must be a valid Grant Type value client_credentials, ` +
				`spec.sink: Invalid value: "": must not be empty]`,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			errs := Subscription(subscriptionWith(tc.change), routing.Policy{})
			require.NotEmpty(t, errs)
			require.EqualError(t, errs.ToAggregate(), tc.want)
		})
	}
}

func TestSubscriptionAcceptsSinksThatThePolicyAllows(t *testing.T) {
	t.Parallel()
	policy := routing.Policy{AllowedSinkHosts: []string{"api.example.com", "*.bank.svc.cluster.local"}}
	for sink, want := range map[string]string{
		"http://price.shop.svc.cluster.local":  "",
		"http://price.bank.svc.cluster.local":  "",
		"https://api.example.com/in":           "",
		"https://example.com":                  `spec.sink: Invalid value: "https://example.com": must have valid sink URL suffix svc.cluster.local`,
		"http://price.other.svc.cluster.local": `metadata.namespace: Invalid value: "shop": must have the same namespace as the subscriber: other`,
	} {
		t.Run(strings.ReplaceAll(sink, "/", "_"), func(t *testing.T) {
			t.Parallel()
			errs := Subscription(subscriptionWith(func(s *spec) { s.Sink = sink }), policy)
			if want == "" {
				require.Empty(t, errs)
				return
			}
			require.EqualError(t, errs.ToAggregate(), want)
		})
	}
}
