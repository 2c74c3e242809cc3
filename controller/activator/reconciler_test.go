package activator

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/testing/never"
)

// The controllers of several tests would conflict in one API server, so these run one after the other.

func TestActivatorsAreListedWhileAFunctionSleepsAndGoWhenItIsAwake(t *testing.T) {
	w := newFixture(t)
	w.gateways(v4, "10.0.0.1", "10.0.0.2")
	w.start()
	fn := w.function("price")
	asleep := w.awaitListed("price", v4, "10.0.0.1", "10.0.0.2")
	require.Equal(t, fn.UID, asleep.UID)
	w.awaitMetric("rouse_controller_activators_listed", 1)
	w.awaitMetric("rouse_controller_activator_ports_used", 1)
	require.Nil(t, w.slice("price", v6), "the gateways have no such family")

	slice := w.slice("price", v4)
	require.Equal(t, map[string]string{
		discoveryv1.LabelServiceName: "price", discoveryv1.LabelManagedBy: activation.ManagedBy, v1alpha2.LabelUUID: string(fn.UID),
	}, slice.Labels)
	owner := metav1.GetControllerOf(slice)
	require.Equal(t, []string{"v1", "Service", "price"}, []string{owner.APIVersion, owner.Kind, owner.Name})
	require.Nil(t, owner.BlockOwnerDeletion, "it would need rights to the Service's finalizers")
	require.Equal(t, discoveryv1.Endpoint{
		Addresses: []string{"10.0.0.1"}, NodeName: new("node-of-10.0.0.1"),
		Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)},
	}, slice.Endpoints[0])

	w.pods("price", true)
	awake := w.awaitListed("price", v4)
	require.Equal(t, asleep.Port, awake.Port)
	w.awaitMetric("rouse_controller_activators_listed", 0)
	w.pods("price", false)
	again := w.awaitListed("price", v4, "10.0.0.1", "10.0.0.2")
	require.Equal(t, asleep.Port, again.Port)
}

func TestActivatorsAreListedBesidePodsWhenAFunctionIsAnnouncedToBeIdle(t *testing.T) {
	w := newFixture(t)
	w.gateways(v4, "10.0.0.1")
	w.start()
	w.pods("price", true)
	w.function("price")
	w.awaitListed("price", v4)

	w.idle <- types.NamespacedName{Namespace: w.namespace, Name: "nobody"}
	w.idle <- types.NamespacedName{Namespace: w.namespace, Name: "price"}
	w.awaitListed("price", v4, "10.0.0.1")
}

// An activator is queried before it is listed.
func TestAnActivatorThatDoesNotKnowTheFunctionIsNotListed(t *testing.T) {
	w := newFixture(t)
	w.gateways(v4, "10.0.0.1")
	w.listEndpoints(gatewayName, v4, endpoint("10.0.0.1", new(true), nil), endpoint("10.0.0.2", new(true), nil))
	stop := w.network.serve(t, "10.0.0.2", forAnother)
	w.start()
	w.function("price")
	w.awaitListed("price", v4, "10.0.0.1")
	stop()
	w.gateway("10.0.0.2")
	w.awaitListed("price", v4, "10.0.0.1", "10.0.0.2")
}

func TestEachAddressFamilyOfTheGatewaysHasASlice(t *testing.T) {
	w := newFixture(t)
	w.gateways(v4, "10.0.0.1")
	w.start()
	w.function("price")
	first := w.awaitListed("price", v4, "10.0.0.1")
	w.gateways(v6, "fd00::1")
	second := w.awaitListed("price", v6, "fd00::1")
	require.Equal(t, first.Port, second.Port)

	w.listEndpoints(gatewayName, v4)
	require.Eventually(t, func() bool { return w.slice("price", v4) == nil }, timeout, tick)
	w.awaitListed("price", v6, "fd00::1")
}

func TestADrainingOrLostGatewayLeavesAllSlices(t *testing.T) {
	w := newFixture(t)
	w.gateways(v4, "10.0.0.1", "10.0.0.2", "10.0.0.3")
	w.start()
	for _, name := range []string{"price", "cart"} {
		w.function(name)
		w.awaitListed(name, v4, "10.0.0.1", "10.0.0.2", "10.0.0.3")
	}
	expect := func(addresses ...string) {
		for _, name := range []string{"price", "cart"} {
			w.awaitListed(name, v4, addresses...)
		}
	}
	stopSecond := w.gateway("10.0.0.2")
	w.listEndpoints(gatewayName, v4,
		endpoint("10.0.0.1", new(false), nil), endpoint("10.0.0.2", new(true), nil), endpoint("10.0.0.3", new(true), new(true)))
	expect("10.0.0.2")
	stopSecond()
	expect()
	w.gateway("10.0.0.2")
	expect("10.0.0.2")
	w.listEndpoints(gatewayName, v4)
	expect()
}

// A workload is awake and asleep like a Function, unless callers have no other way to its pods.
func TestTheServiceOfAWorkloadListsActivators(t *testing.T) {
	w := newFixture(t)
	w.gateways(v4, "10.0.0.1")
	w.start()
	service := w.workload("site", intstr.FromInt32(8080))
	asleep := w.awaitListed("site", v4, "10.0.0.1")
	require.Equal(t, service.UID, asleep.UID)
	require.Equal(t, "web", *w.slice("site", v4).Ports[0].Name, "nodes find the endpoints of a port by its name")
	w.pods("site", true)
	w.awaitListed("site", v4)

	w.workload("shop", intstr.FromString("rouse-8080"))
	w.pods("shop", true)
	w.awaitListed("shop", v4, "10.0.0.1")
	w.idle <- types.NamespacedName{Namespace: w.namespace, Name: "shop"}
	never.Happens(t, func() bool {
		listing, ok := w.listing("shop", v4)
		return ok && len(listing.Addresses) == 0
	}, settleTime+time.Second, tick, "its only way was gone")
	w.gateways(v4, "10.0.0.1", "10.0.0.2")
	w.awaitListed("shop", v4, "10.0.0.1", "10.0.0.2")

	for _, name := range []string{"site", "shop"} {
		before := &corev1.Service{}
		require.NoError(t, w.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, before))
		after := before.DeepCopy()
		delete(after.Annotations, v1alpha2.AnnotationHTTPWake)
		require.NoError(t, w.Patch(t.Context(), after, client.MergeFrom(before)))
		w.awaitNone(name)
	}
	w.awaitMetric("rouse_controller_activator_ports_used", 0)
}

func TestFunctionsWithoutHTTPWakeHaveNoSlices(t *testing.T) {
	w := newFixture(t)
	w.gateways(v4, "10.0.0.1")
	w.start()
	for name, change := range map[string]func(*v1alpha2.Function){
		"disabled": func(fn *v1alpha2.Function) {
			fn.Annotations = map[string]string{v1alpha2.AnnotationHTTPWake: v1alpha2.HTTPWakeDisabled}
		},
		"always-awake": func(fn *v1alpha2.Function) { fn.Spec.ScaleConfig.MinReplicas = new(int32(1)) },
		"not-scaled":   func(fn *v1alpha2.Function) { fn.Spec.ScaleConfig = nil },
	} {
		fn := w.function(name)
		w.awaitListed(name, v4, "10.0.0.1")
		w.update(fn, change)
		w.awaitNone(name)
	}
	gone := w.function("gone")
	w.awaitListed("gone", v4, "10.0.0.1")
	require.NoError(t, w.Delete(t.Context(), gone))
	w.awaitNone("gone")

	lonely := w.function("lonely")
	w.awaitListed("lonely", v4, "10.0.0.1")
	require.NoError(t, w.Delete(t.Context(), w.serviceOf("lonely")))
	w.awaitNone("lonely")
	w.service("lonely")
	w.service("another", *metav1.NewControllerRef(lonely, v1alpha2.GroupVersion.WithKind("Function")))
	w.awaitMetric("rouse_controller_activator_ports_used", 0)

	fn := w.function("keda")
	w.awaitListed("keda", v4, "10.0.0.1")
	w.noKEDA.Store(true)
	fn.Status.Conditions = []metav1.Condition{{
		Type: v1alpha2.ConditionScaling, Status: metav1.ConditionFalse, Reason: v1alpha2.ReasonKedaNotInstalled, LastTransitionTime: metav1.Now(),
	}}
	require.NoError(t, w.Status().Update(t.Context(), fn))
	w.awaitNone("keda")
	w.awaitMetric("rouse_controller_forged_activator_slices_total", 0)
}

func TestForgedSlicesAreDeletedAndTamperedOnesRepaired(t *testing.T) {
	w := newFixture(t)
	w.gateways(v4, "10.0.0.1")
	w.start()
	w.function("price")
	w.function("cart")
	price, cart := w.awaitListed("price", v4, "10.0.0.1"), w.awaitListed("cart", v4, "10.0.0.1")

	for _, forged := range []struct{ name, service string }{
		{"more", "price"}, {activation.SliceName("price", v6), "price"}, {activation.SliceName("nobody", v4), "nobody"}, {"unlabelled", ""},
	} {
		slice := w.forge(forged.name, forged.service, price.Port)
		require.Eventually(t, func() bool { return !w.exists(slice) }, timeout, tick, forged.name)
	}
	w.awaitMetric("rouse_controller_forged_activator_slices_total", 4)

	for name, change := range map[string]func(*discoveryv1.EndpointSlice){
		"the port of another Function": func(s *discoveryv1.EndpointSlice) { s.Ports[0].Port = new(price.Port) },
		"an unused address":            func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = []string{"10.6.6.6"} },
		"no label":                     func(s *discoveryv1.EndpointSlice) { delete(s.Labels, v1alpha2.LabelUUID) },
		"another manager":              func(s *discoveryv1.EndpointSlice) { s.Labels[discoveryv1.LabelManagedBy] = "me" },
	} {
		slice := w.slice("cart", v4)
		change(slice)
		require.NoError(t, w.Update(t.Context(), slice, client.FieldOwner("tenant")), name)
		require.Eventually(t, func() bool {
			listing, ok := w.listing("cart", v4)
			return ok && listing.Port == cart.Port && listing.UID == cart.UID && slices.Equal(listing.Addresses, []string{"10.0.0.1"})
		}, timeout, tick, name)
	}
	require.Equal(t, price.Port, w.awaitListed("price", v4, "10.0.0.1").Port)
}

func TestAForeignSliceStaysUnchanged(t *testing.T) {
	w := newFixture(t)
	w.gateways(v4, "10.0.0.1")
	theirs := w.forge(activation.SliceName("price", v4), "price", activation.FirstPort, func(s *discoveryv1.EndpointSlice) {
		s.Labels[discoveryv1.LabelManagedBy] = "somebody"
	})
	w.start()
	w.function("price")
	w.function("cart")
	w.awaitListed("cart", v4, "10.0.0.1")
	left := w.slice("price", v4)
	require.Equal(t, theirs.ResourceVersion, left.ResourceVersion)
}

func TestFunctionsKeepTheirPortsOverARestart(t *testing.T) {
	w := newFixture(t)
	w.gateways(v4, "10.0.0.1")
	stop := w.start()
	w.function("price")
	w.function("cart")
	price, cart := w.awaitListed("price", v4, "10.0.0.1"), w.awaitListed("cart", v4, "10.0.0.1")
	require.NotEqual(t, price.Port, cart.Port)
	stop()

	// Two leaders unaware of each other, or a tenant, have given one port to two Functions.
	slice := w.slice("cart", v4)
	slice.Ports[0].Port = new(price.Port)
	require.NoError(t, w.Update(t.Context(), slice))
	first, second := "cart", "price" // created in the same second, or ordered by age
	if w.slice("price", v4).CreationTimestamp.Before(&slice.CreationTimestamp) {
		first, second = second, first
	}
	w.start()
	require.Eventually(t, func() bool {
		moved, ok := w.listing(second, v4)
		return ok && moved.Port != price.Port && len(moved.Addresses) == 1
	}, timeout, tick)
	require.Equal(t, price.Port, w.awaitListed(first, v4, "10.0.0.1").Port)
}

func TestWithoutGatewaysAllSlicesAreDeletedOnce(t *testing.T) {
	w := newFixture(t)
	w.function("price")
	w.service("cart")
	ours := w.forge(activation.SliceName("price", v4), "price", activation.FirstPort)
	w.listEndpoints("price", v4, endpoint("10.1.0.1", new(true), nil))
	w.start(func(o *Options) { o.GatewayService = types.NamespacedName{} })
	require.Eventually(t, func() bool { return !w.exists(ours) }, timeout, tick)
	list := &discoveryv1.EndpointSliceList{}
	require.NoError(t, w.List(t.Context(), list, client.InNamespace(w.namespace)))
	require.Len(t, list.Items, 1, "slices of Kubernetes must remain")
}
