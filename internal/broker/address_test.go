package broker

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/routing"
)

// FuzzAddress has nats-server as its judge: whatever source and type are, either the publisher gets the reason, or the
// server takes the subject, and a Subscription that names them asks for it.
func FuzzAddress(f *testing.F) {
	f.Add("shop", "order.received.v1")
	f.Add("my.shop/eu", "or der.*>received.v1")
	f.Add("kyma", "sap.kyma.custom.my-app.Account.Root.Created.v1")
	f.Add("rouse-.redelivery", "\xff.\u2028\u0085")
	f.Add("\x00", "..")
	f.Fuzz(func(t *testing.T, source, eventType string) {
		found, err := addressOf(source, eventType)
		if err != nil {
			var invalid *InvalidEventError
			require.ErrorAs(t, err, &invalid)
			return
		}
		require.True(t, server.IsValidPublishSubject(found.subject), "%q", found.subject)
		require.NoError(t, checkSubject(found.subject))
		require.True(t, strings.HasPrefix(found.subject, routing.SubjectPrefix+"."))
		require.False(t, routing.IsRedelivery(found.subject))
		if found.keepOriginal {
			require.Equal(t, routing.Subject(source, eventType, false), found.subject)
			again, err := addressOf(routing.CleanSource(source), routing.CleanType(eventType))
			require.NoError(t, err)
			require.Equal(t, found.subject, again.subject, "cleaning twice must change nothing")
			return
		}
		require.Equal(t, routing.Subject("", found.wireType, true), found.subject)
		again, err := addressOf(source, found.wireType)
		require.NoError(t, err)
		require.Equal(t, found, again, "cleaning twice must change nothing")
	})
}

// FuzzFilters: a Subscription is either refused, or the server takes all its subjects as filters, and events that are
// published with its own source and types are among them.
func FuzzFilters(f *testing.F) {
	f.Add("shop", "order.received.v1", "order.*.v1", false)
	f.Add("", "sap.kyma.custom.shop.order.created.v1", "sap.kyma.>", true)
	f.Add("a", "b.\x00", "*.*.>", true)
	f.Add("rouse-redelivery", "x.>.y", "..", true)
	f.Fuzz(func(t *testing.T, source, one, other string, exact bool) {
		sub := &eventingv1alpha2.Subscription{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "price"}}
		sub.Spec = eventingv1alpha2.SubscriptionSpec{
			Sink: "http://price.shop.svc.cluster.local", Source: source, Types: []string{one, other},
			TypeMatching: eventingv1alpha2.TypeMatchingStandard,
		}
		if exact {
			sub.Spec.TypeMatching = eventingv1alpha2.TypeMatchingExact
		}
		route, err := routing.FromSubscription(sub, routing.Policy{})
		if err != nil {
			require.ErrorIs(t, err, routing.ErrInvalidSubject)
			return
		}
		for i, subject := range route.Subjects {
			require.True(t, server.IsValidSubject(subject), "%q", subject)
			require.True(t, exact || server.IsValidPublishSubject(subject), "%q", subject)
			for j, second := range route.Subjects {
				require.False(t, i != j && server.SubjectMatchesFilter(subject, second), "%q is in %q", subject, second)
			}
		}
		for _, mapping := range route.Types {
			published, err := addressOf(source, mapping.Original)
			if exact || err != nil || !published.keepOriginal {
				continue
			}
			require.Equal(t, mapping.Subject, published.subject)
		}
	})
}
