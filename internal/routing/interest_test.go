package routing

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
)

func subscribed(source string, types ...string) eventingv1alpha2.SubscriptionSpec {
	return eventingv1alpha2.SubscriptionSpec{Source: source, Types: types}
}

func exactly(types ...string) eventingv1alpha2.SubscriptionSpec {
	return eventingv1alpha2.SubscriptionSpec{TypeMatching: eventingv1alpha2.TypeMatchingExact, Types: types}
}

func TestExplainSuggestsTheEventThatThePublisherMayHaveMeant(t *testing.T) {
	t.Parallel()
	const none = "no Subscription takes it"
	shop := []eventingv1alpha2.SubscriptionSpec{subscribed("shop", "order.received", "order.deleted"), subscribed("pricing", "order.priced")}
	for name, tc := range map[string]struct {
		specs []eventingv1alpha2.SubscriptionSpec
		event EventKind
		want  string
	}{
		"a matched event":                          {shop, EventKind{"order.received", "shop"}, ""},
		"an event that matches after cleaning":     {shop, EventKind{"order.rec/eived", "sh.op"}, ""},
		"a letter too few":                         {shop, EventKind{"order.receive", "shop"}, none + "; did you mean order.received from shop?"},
		"two letters the other way round":          {shop, EventKind{"order.deletde", "shop"}, none + "; did you mean order.deleted from shop?"},
		"other capitals":                           {shop, EventKind{"Order.Received", "shop"}, none + "; did you mean order.received from shop?"},
		"the right type from another source":       {shop, EventKind{"order.received", "me"}, none + "; did you mean order.received from shop?"},
		"a mistyped source":                        {shop, EventKind{"order.priced", "prcing"}, none + "; did you mean order.priced from pricing?"},
		"another word in the same form":            {shop, EventKind{"order.created", "shop"}, none},
		"something else":                           {shop, EventKind{"mail.sent", "shop"}, none},
		"no Subscriptions":                         {nil, EventKind{"order.received", "shop"}, none},
		"names too short to be mistyped":           {[]eventingv1alpha2.SubscriptionSpec{subscribed("s", "a")}, EventKind{"b", "s"}, none},
		"the nearest source of two":                {[]eventingv1alpha2.SubscriptionSpec{subscribed("depot", "sent"), subscribed("shop", "sent")}, EventKind{"sent", "shopp"}, none + "; did you mean sent from shop?"},
		"a subject that matches exactly":           {[]eventingv1alpha2.SubscriptionSpec{exactly("shop.order.received")}, EventKind{"order.received", "shop"}, ""},
		"a subject that nearly matches":            {[]eventingv1alpha2.SubscriptionSpec{exactly("shop.order.received")}, EventKind{"order.receivd", "shop"}, none + "; did you mean order.received from shop?"},
		"a wildcard that matches":                  {[]eventingv1alpha2.SubscriptionSpec{exactly("shop.order.*")}, EventKind{"order.received", "shop"}, ""},
		"a wildcard that does not match":           {[]eventingv1alpha2.SubscriptionSpec{exactly("shop.order.*")}, EventKind{"order.received.v1", "shop"}, none},
		"Kyma's first format from any source":      {[]eventingv1alpha2.SubscriptionSpec{exactly("sap.kyma.custom.shop.order.received.v1")}, EventKind{"sap.kyma.custom.shop.order.received.v1", "x"}, ""},
		"Kyma's first format, mistyped":            {[]eventingv1alpha2.SubscriptionSpec{exactly("sap.kyma.custom.shop.order.received.v1")}, EventKind{"sap.kyma.custom.shop.order.receivd.v1", "x"}, none + "; did you mean sap.kyma.custom.shop.order.received.v1?"},
		"a standard type with a star is no filter": {[]eventingv1alpha2.SubscriptionSpec{subscribed("shop", "order.*")}, EventKind{"order.received", "shop"}, none},
	} {
		require.Equal(t, tc.want, InterestOf(tc.specs).Explain(tc.event), name)
	}
}

func TestOverlongNamesAreNotCompared(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("order.", longest)
	_, ok := InterestOf([]eventingv1alpha2.SubscriptionSpec{subscribed("shop", long+"received")}).Nearest(EventKind{long + "receivd", "shop"})
	require.False(t, ok)
}
