package routing

import (
	"testing"

	"github.com/stretchr/testify/require"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
)

func accessOf(t *testing.T, text string) Access {
	t.Helper()
	var access Access
	require.NoError(t, access.Set(text))
	return access
}

func TestAccessWithoutRulesAllowsEverythingAsInKyma(t *testing.T) {
	t.Parallel()
	var open Access
	require.NoError(t, open.MaySubscribe("red", "kyma.>"))
	require.NoError(t, open.MayPublish("red", "default", "bank", "money.sent", ""))
	require.Empty(t, open.String())

	closed := accessOf(t, `{"subscribe":{"rules":[]},"publish":{"rules":[]}}`)
	require.ErrorIs(t, closed.MaySubscribe("red", "kyma.shop.a.b"), ErrNotAllowed)
	require.ErrorIs(t, closed.MayPublish("red", "default", "shop", "a.b", ""), ErrNotAllowed)
	require.Equal(t, DefaultAudience, closed.Publish.Audience)
}

func TestNamespaceMaySubscribeToSubjectsThatARuleCoversWholly(t *testing.T) {
	t.Parallel()
	access := accessOf(t, `{"subscribe":{"rules":[
		{"namespaces":["orders"],"sources":["/shop/eu"],"types":["order.*.v1","invoice.>"]},
		{"namespaces":["audit"]},
		{"namespaces":["*"],"sources":["news"]},
		{"namespaces":["first"],"sources":["sap"],"types":["kyma.custom.shop.>"]}]}}`)
	tests := map[string]struct {
		namespace, source, eventType string
		exact, allowed               bool
	}{
		"a listed type":                                {"orders", "shopeu", "order.received.v1", false, true},
		"another spelling of the source":               {"orders", "s/h.o*p e u", "order.received.v1", false, true},
		"one segment too many":                         {"orders", "shopeu", "order.received.v1.x", false, false},
		"all that follow":                              {"orders", "shopeu", "invoice.a.b.c", false, true},
		"another source":                               {"orders", "bank", "order.received.v1", false, false},
		"another namespace":                            {"red", "shopeu", "order.received.v1", false, false},
		"a source for everybody":                       {"red", "news", "any.thing", false, true},
		"an exact type that is named":                  {"orders", "", "shopeu.order.received.v1", true, true},
		"an exact type with a wildcard that is named":  {"orders", "", "shopeu.order.*.v1", true, true},
		"an exact type with a wildcard that is larger": {"orders", "", "shopeu.order.>", true, false},
		"a wildcard for the source":                    {"orders", "", "*.order.received.v1", true, false},
		"every tenant's events":                        {"orders", "", "*.>", true, false},
		"everything, where that is allowed":            {"audit", "", "*.>", true, true},
		"a lonely wildcard":                            {"news", "", "*.*", true, false},
		"Kyma's first format":                          {"first", "", "sap.kyma.custom.shop.order.received.v1", true, true},
		"another's in Kyma's first format":             {"first", "", "sap.kyma.custom.bank.order.received.v1", true, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sub := &eventingv1alpha2.Subscription{}
			sub.Namespace, sub.Name = tc.namespace, "s"
			sub.Spec.Source, sub.Spec.Types = tc.source, []string{tc.eventType}
			sub.Spec.Sink = "http://sink." + tc.namespace + ".svc.cluster.local"
			if tc.exact {
				sub.Spec.TypeMatching = eventingv1alpha2.TypeMatchingExact
			}
			_, err := FromSubscription(sub, Policy{Access: access})
			if tc.allowed {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrNotAllowed)
			require.ErrorContains(t, err, "access.subscribe")
		})
	}
}

func TestServiceAccountMayPublishEventsThatARuleCovers(t *testing.T) {
	t.Parallel()
	access := accessOf(t, `{"publish":{"rules":[
		{"serviceAccounts":["shop/checkout"],"sources":["shop"],"types":["order.>","sap.kyma.custom.shop.>"]},
		{"serviceAccounts":["shop/checkout"],"sources":["sap"],"types":["kyma.custom.shop.>"]},
		{"serviceAccounts":["pricing/*"],"sources":["pricing"]}]}}`)
	tests := map[string]struct {
		namespace, name, source, eventType, oldType string
		allowed                                     bool
	}{
		"a listed event":                             {"shop", "checkout", "shop", "order.received", "", true},
		"another spelling of the source":             {"shop", "checkout", "/sh.op", "order.received", "", true},
		"another account of the namespace":           {"shop", "default", "shop", "order.received", "", false},
		"the account of another namespace":           {"red", "checkout", "shop", "order.received", "", false},
		"as another source":                          {"shop", "checkout", "bank", "order.received", "", false},
		"as a source that cleans to another":         {"shop", "checkout", "b.a/n k", "order.received", "", false},
		"another type":                               {"shop", "checkout", "shop", "refund.sent", "", false},
		"any account of a namespace":                 {"pricing", "default", "pricing", "a.b", "", true},
		"a reply of a sink":                          {"pricing", "", "pricing", "a.b", "", true},
		"a reply, where one account alone is named":  {"shop", "", "shop", "order.received", "", false},
		"Kyma's first format":                        {"shop", "checkout", "shop", "sap.kyma.custom.shop.order.received.v1", "", true},
		"the same from a source that is another's":   {"shop", "checkout", "bank", "sap.kyma.custom.shop.order.received.v1", "", false},
		"another's type in Kyma's first format":      {"shop", "checkout", "shop", "sap.kyma.custom.bank.order.received.v1", "", false},
		"another's type that is cleaned to":          {"shop", "checkout", "shop", "sap.kyma.custom.b-ank.order.received.v1", "", false},
		"a legacy event":                             {"shop", "checkout", "shop", "order.received", "sap.kyma.custom.shop.order.received", true},
		"a legacy event under another's old type":    {"shop", "checkout", "shop", "order.received", "sap.kyma.custom.bank.order.received", false},
		"the redelivery subject of a Subscription":   {"shop", "checkout", "rouse-redelivery", "x.y", "", false},
		"a wildcard, which is cleaned, as a source":  {"shop", "checkout", "*", "order.received", "", false},
		"a wildcard, which is cleaned, as a segment": {"shop", "checkout", "shop", "*.received", "", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := access.MayPublish(tc.namespace, tc.name, tc.source, tc.eventType, tc.oldType)
			if tc.allowed {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrNotAllowed)
		})
	}
	require.EqualError(t, access.MayPublish("red", "default", "shop", "order.received", ""),
		`not allowed: no rule of access.publish lets the ServiceAccount red/default publish events of source "shop" and type "order.received", `+
			`subject "kyma.shop.order.received"; ask the operator of the cluster for a rule`)
}

func TestMeaninglessRuleIsRejected(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"subscribe":{"rules":[{"sources":["a"]}]}}`:                                    `subscribe.rules[0].namespaces: name one, or "*"`,
		`{"subscribe":{"rules":[{"namespaces":["a"],"source":["a"]}]}}`:                  `unknown field "source"`,
		`{"subscribe":{"rules":[{"namespaces":["a"],"sources":["/"]}]}}`:                 `subscribe.rules[0].sources: "/" contains no character`,
		`{"subscribe":{"rules":[{"namespaces":["a"],"types":["a.>.b"]}]}}`:               `the wildcard > must come last`,
		`{"publish":{"rules":[{}]}}`:                                                     `publish.rules[0].serviceAccounts: name one`,
		`{"publish":{"rules":[{"serviceAccounts":["default"]}]}}`:                        `"default" must be namespace/name or namespace/*`,
		`{"publish":{"rules":[{"serviceAccounts":["*/default"],"types":["order..x"]}]}}`: `empty segment`,
		`{`: `unexpected EOF`,
	} {
		var access Access
		require.ErrorContains(t, access.Set(text), want, text)
		require.Equal(t, Access{}, access)
	}
}
