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

func TestAnEventThatNoSubscriptionTakesIsExplained(t *testing.T) {
	t.Parallel()
	const none = "no Subscription takes it"
	shop := []eventingv1alpha2.SubscriptionSpec{subscribed("shop", "order.received", "order.deleted"), subscribed("pricing", "order.priced")}
	for name, tc := range map[string]struct {
		specs []eventingv1alpha2.SubscriptionSpec
		event EventKind
		want  string
	}{
		"one that is taken":                        {shop, EventKind{"order.received", "shop"}, ""},
		"one that is taken once it is cleaned":     {shop, EventKind{"order.rec/eived", "sh.op"}, ""},
		"a letter too few":                         {shop, EventKind{"order.receive", "shop"}, none + "; did you mean order.received from shop?"},
		"two letters the other way round":          {shop, EventKind{"order.deletde", "shop"}, none + "; did you mean order.deleted from shop?"},
		"other capitals":                           {shop, EventKind{"Order.Received", "shop"}, none + "; did you mean order.received from shop?"},
		"the right type from another source":       {shop, EventKind{"order.received", "me"}, none + "; did you mean order.received from shop?"},
		"a mistyped source":                        {shop, EventKind{"order.priced", "prcing"}, none + "; did you mean order.priced from pricing?"},
		"another word of the same make":            {shop, EventKind{"order.created", "shop"}, none},
		"something else":                           {shop, EventKind{"mail.sent", "shop"}, none},
		"nobody there":                             {nil, EventKind{"order.received", "shop"}, none},
		"names too short to be mistyped":           {[]eventingv1alpha2.SubscriptionSpec{subscribed("s", "a")}, EventKind{"b", "s"}, none},
		"the nearest source of two":                {[]eventingv1alpha2.SubscriptionSpec{subscribed("depot", "sent"), subscribed("shop", "sent")}, EventKind{"sent", "shopp"}, none + "; did you mean sent from shop?"},
		"a subject that is taken exactly":          {[]eventingv1alpha2.SubscriptionSpec{exactly("shop.order.received")}, EventKind{"order.received", "shop"}, ""},
		"a subject that is nearly taken":           {[]eventingv1alpha2.SubscriptionSpec{exactly("shop.order.received")}, EventKind{"order.receivd", "shop"}, none + "; did you mean order.received from shop?"},
		"a wildcard that takes it":                 {[]eventingv1alpha2.SubscriptionSpec{exactly("shop.order.*")}, EventKind{"order.received", "shop"}, ""},
		"a wildcard that does not":                 {[]eventingv1alpha2.SubscriptionSpec{exactly("shop.order.*")}, EventKind{"order.received.v1", "shop"}, none},
		"Kyma's first format from any source":      {[]eventingv1alpha2.SubscriptionSpec{exactly("sap.kyma.custom.shop.order.received.v1")}, EventKind{"sap.kyma.custom.shop.order.received.v1", "x"}, ""},
		"Kyma's first format, mistyped":            {[]eventingv1alpha2.SubscriptionSpec{exactly("sap.kyma.custom.shop.order.received.v1")}, EventKind{"sap.kyma.custom.shop.order.receivd.v1", "x"}, none + "; did you mean sap.kyma.custom.shop.order.received.v1?"},
		"a standard type with a star is no filter": {[]eventingv1alpha2.SubscriptionSpec{subscribed("shop", "order.*")}, EventKind{"order.received", "shop"}, none},
	} {
		require.Equal(t, tc.want, InterestOf(tc.specs).Explain(tc.event), name)
	}
}

func TestNamesThatAreLongerThanPeopleTypeAreNotCompared(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("order.", longest)
	_, ok := InterestOf([]eventingv1alpha2.SubscriptionSpec{subscribed("shop", long+"received")}).Nearest(EventKind{long + "receivd", "shop"})
	require.False(t, ok)
}
