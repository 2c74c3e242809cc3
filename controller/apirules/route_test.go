package apirules

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayapi "sigs.k8s.io/gateway-api/apis/v1"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

func (f *fixture) at(gateway string) func(*v2.APIRule) {
	return func(r *v2.APIRule) { r.Spec.Gateway = new(f.tenant + "/" + gateway) }
}

func TestAnHTTPRouteLeadsAGatewayToTheGateways(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.service(f.tenant, "price")
	entrance := f.service(f.release, "rouse-gateway-http")
	f.gateway("10.0.0.1")
	f.start()
	rule := f.rule("price", f.at("public"))
	f.await(rule, v2.StateError, "Attribute 'spec.gateway': Could not get specified Gateway")
	require.Nil(t, f.httpRoute("price"))

	f.apiGateway("public") // created later
	route := f.awaitRoute("price", "price."+f.domain)
	f.await(rule, v2.StateWarning, "Gateway "+f.tenant+"/public has not accepted HTTPRoute price yet")
	require.Equal(t, []gatewayapi.ParentReference{{
		Group: new(gatewayapi.Group("gateway.networking.k8s.io")), Kind: new(gatewayapi.Kind("Gateway")),
		Namespace: new(gatewayapi.Namespace(f.tenant)), Name: "public",
	}}, route.Spec.ParentRefs)
	require.Len(t, route.Spec.Rules, 1)
	require.Equal(t, []gatewayapi.HTTPRouteMatch{{
		Path: &gatewayapi.HTTPPathMatch{Type: new(gatewayapi.PathMatchPathPrefix), Value: new("/")},
	}}, route.Spec.Rules[0].Matches)
	require.Equal(t, gatewayapi.BackendObjectReference{
		Group: new(gatewayapi.Group("")), Kind: new(gatewayapi.Kind("Service")), Name: "rouse-gateway-http",
		Namespace: new(gatewayapi.Namespace(f.release)), Port: new(gatewayapi.PortNumber(80)),
	}, route.Spec.Rules[0].BackendRefs[0].BackendObjectReference)
	owner := metav1.GetControllerOf(route)
	require.Equal(t, rule.UID, owner.UID)
	require.Nil(t, owner.BlockOwnerDeletion, "it would need rights to the APIRule's finalizers")

	f.answer(route, "public", accepted(), resolved())
	f.await(rule, v2.StateReady, "Reconciled successfully")

	grant := &gatewayapi.ReferenceGrant{}
	require.NoError(t, f.Get(t.Context(), types.NamespacedName{Namespace: f.release, Name: "rouse-gateway-http-" + f.tenant}, grant))
	require.Equal(t, gatewayapi.ReferenceGrantSpec{
		From: []gatewayapi.ReferenceGrantFrom{{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute", Namespace: gatewayapi.Namespace(f.tenant)}},
		To:   []gatewayapi.ReferenceGrantTo{{Kind: "Service", Name: new(gatewayapi.ObjectName("rouse-gateway-http"))}},
	}, grant.Spec)
	require.Equal(t, entrance.UID, metav1.GetControllerOf(grant).UID, "it goes with the gateways")
}

func TestHTTPRouteConditionsAreInTheStatus(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.service(f.tenant, "price")
	f.gateway("10.0.0.1")
	f.apiGateway("public")
	f.start()
	rule := f.rule("price", f.at("public"))
	route := f.awaitRoute("price", "price."+f.domain)
	f.answer(route, "public", metav1.Condition{
		Type: "Accepted", Status: metav1.ConditionFalse, Reason: "NotAllowedByListeners", Message: "routes of this namespace are not allowed",
	}, resolved())
	found := f.await(rule, v2.StateError, "HTTPRouteErrors")
	require.Equal(t, "HTTPRouteErrors: Gateway "+f.tenant+"/public: Accepted is false (NotAllowedByListeners): routes of this namespace are not allowed",
		found.Status.Description)

	f.answer(route, "public", accepted(), metav1.Condition{Type: "ResolvedRefs", Status: metav1.ConditionFalse, Reason: "RefNotPermitted"})
	f.await(rule, v2.StateError, "ResolvedRefs is false (RefNotPermitted)")
	f.answer(route, "another", accepted(), resolved())
	f.await(rule, v2.StateWarning, "has not accepted")
	f.answer(route, "public", accepted(), resolved())
	f.await(rule, v2.StateReady, "")

	// Conditions of the HTTPRoute from before an edit are ignored.
	f.edit(rule, func(r *v2.APIRule) { r.Spec.Hosts[0] = "other" })
	f.awaitRoute("price", "other."+f.domain)
	f.await(rule, v2.StateWarning, "has not accepted")
}

func TestUnwantedHTTPRoutesAndGrantsAreDeleted(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.service(f.tenant, "price")
	f.service(f.release, "rouse-gateway-http")
	f.gateway("10.0.0.1")
	f.apiGateway("public")
	f.start()
	grant := []string{"rouse-gateway-http-" + f.tenant}
	noRoute := func(name string) {
		require.Eventually(t, func() bool { return f.httpRoute(name) == nil }, timeout, soon)
	}
	first, second := f.rule("price", f.at("public")), f.rule("second", f.at("public"))
	f.awaitRoute("price", "price."+f.domain)
	f.awaitRoute("second", "second."+f.domain)
	require.Equal(t, grant, f.grants())

	f.edit(first, func(r *v2.APIRule) { r.Spec.Rules[0].Path = "/{**}/{**}" })
	noRoute("price")
	f.edit(first, func(r *v2.APIRule) { r.Spec.Rules[0].Path = "/*" })
	f.awaitRoute("price", "price."+f.domain)
	f.edit(first, func(r *v2.APIRule) { r.Spec.Gateway = new("kyma-system/kyma-gateway") })
	noRoute("price")
	f.await(first, v2.StateReady, "")
	require.Equal(t, grant, f.grants(), "the second one needs it")

	// Objects that others delete or change are restored.
	lost := f.httpRoute("second")
	require.NoError(t, f.Delete(t.Context(), lost))
	require.Eventually(t, func() bool { now := f.httpRoute("second"); return now != nil && now.UID != lost.UID }, timeout, soon)
	changed := f.httpRoute("second")
	changed.Spec.Hostnames = []gatewayapi.Hostname{"stolen.example.com"}
	require.NoError(t, f.Update(t.Context(), changed))
	f.awaitRoute("second", "second."+f.domain)
	require.NoError(t, f.DeleteAllOf(t.Context(), &gatewayapi.ReferenceGrant{}, client.InNamespace(f.release)))
	require.Eventually(t, func() bool { return len(f.grants()) == 1 }, timeout, soon)

	require.NoError(t, f.Delete(t.Context(), second)) // garbage collection, which envtest lacks, deletes its HTTPRoute
	require.Eventually(t, func() bool { return len(f.grants()) == 0 }, timeout, soon)
}

func TestAForeignHTTPRouteStaysUnchanged(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.service(f.tenant, "price")
	f.gateway("10.0.0.1")
	f.apiGateway("public")
	foreign := &gatewayapi.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.tenant, Name: "price"},
		Spec:       gatewayapi.HTTPRouteSpec{Hostnames: []gatewayapi.Hostname{"mine.example.com"}},
	}
	require.NoError(t, f.Create(t.Context(), foreign, client.FieldOwner("me")))
	f.start()
	rule := f.rule("price", f.at("public"))
	f.await(rule, v2.StateError, "HTTPRouteErrors: HTTPRoute price already exists and belongs to no controller (it was written by me)")
	f.edit(rule, func(r *v2.APIRule) { r.Spec.Gateway = new("kyma-system/kyma-gateway") })
	f.await(rule, v2.StateReady, "")
	require.Equal(t, foreign.ResourceVersion, f.httpRoute("price").ResourceVersion)

	f.edit(rule, f.at("public"))
	f.await(rule, v2.StateError, "HTTPRouteErrors")
	require.NoError(t, f.Delete(t.Context(), foreign))
	f.awaitRoute("price", "price."+f.domain)
}

func TestOrphanedGrantsAreDeletedAtTheStart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	entrance := f.service(f.release, "rouse-gateway-http")
	f.gateway("10.0.0.1")
	grant := func(name string, owners ...metav1.OwnerReference) {
		require.NoError(t, f.Create(t.Context(), &gatewayapi.ReferenceGrant{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.release, Name: name, OwnerReferences: owners},
			Spec: gatewayapi.ReferenceGrantSpec{
				From: []gatewayapi.ReferenceGrantFrom{{Group: "gateway.networking.k8s.io", Kind: "HTTPRoute", Namespace: "gone"}},
				To:   []gatewayapi.ReferenceGrantTo{{Kind: "Service"}},
			},
		}))
	}
	ours := metav1.OwnerReference{APIVersion: "v1", Kind: "Service", Name: entrance.Name, UID: entrance.UID, Controller: new(true)}
	grant("rouse-gateway-http-gone", ours)
	grant("rouse-gateway-http-byhand")
	grant("another")
	f.start()
	require.Eventually(t, func() bool { return len(f.grants()) == 2 }, timeout, soon)
	require.ElementsMatch(t, []string{"another", "rouse-gateway-http-byhand"}, f.grants())
}
