package activator

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/kube"
)

func free(int32) bool { return false }

func named(namespace string, number int) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: "f" + strconv.Itoa(number)}
}

func TestAnActivatorPortBelongsToOneFunction(t *testing.T) {
	t.Parallel()
	p := newPorts()
	first, err := p.allocate(named("shop", 1), "uid", free, noon())
	require.NoError(t, err)
	require.GreaterOrEqual(t, first, int32(activation.FirstPort))
	require.LessOrEqual(t, first, int32(activation.LastPort))
	other, err := newPorts().allocate(named("shop", 1), "uid", free, noon())
	require.NoError(t, err)
	require.Equal(t, first, other, "another leader would choose the same")

	second, err := p.allocate(named("shop", 2), "uid", free, noon())
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	require.False(t, p.claim(named("shop", 3), first))
	require.True(t, p.claim(named("shop", 3), after(first, 2)))
	known, ok := p.of(named("shop", 1))
	require.True(t, ok)
	require.Equal(t, first, known)

	third, err := p.allocate(named("shop", 4), "uid", func(port int32) bool { return port == after(first, 3) }, noon())
	require.NoError(t, err)
	require.Equal(t, after(first, 4), third, "the previous port is in a slice of a Function that was not reconciled yet")
	require.Equal(t, 4, p.used())
}

// after returns the port at the given distance from another, with wraparound.
func after(port, count int32) int32 {
	return activation.FirstPort + (port-activation.FirstPort+count)%portCount
}

// Nodes and clients may still send requests for the previous Function there.
func TestAReleasedActivatorPortIsNotReusedAtOnce(t *testing.T) {
	t.Parallel()
	p := newPorts()
	first, err := p.allocate(named("shop", 1), "uid", free, noon())
	require.NoError(t, err)
	p.release(named("shop", 1), noon())
	p.release(named("shop", 1), noon())
	require.Zero(t, p.used())
	require.Empty(t, p.inSpace)

	soon, err := p.allocate(named("shop", 2), "uid", free, noon().Add(restTime-1))
	require.NoError(t, err)
	require.NotEqual(t, first, soon)
	late, err := p.allocate(named("shop", 3), "uid", free, noon().Add(restTime))
	require.NoError(t, err)
	require.Equal(t, first, late)
}

func TestANamespaceHoldsNoMorePortsThanItLeavesFree(t *testing.T) {
	t.Parallel()
	p := newPorts()
	held := 0
	for ; ; held++ {
		if _, err := p.allocate(named("greedy", held), types.UID(strconv.Itoa(held)), free, noon()); err != nil {
			require.ErrorIs(t, err, errNoPort)
			break
		}
	}
	require.Equal(t, portCount/2, held)
	_, err := p.allocate(named("shop", 1), "uid", free, noon())
	require.NoError(t, err, "others get one")
	require.Equal(t, held+1, p.used())
}

func TestActivatorPortsRunOut(t *testing.T) {
	t.Parallel()
	p := newPorts()
	_, err := p.allocate(named("shop", 1), "uid", func(int32) bool { return true }, noon())
	require.ErrorIs(t, err, errNoPort)
	require.ErrorContains(t, err, "rouse.run/http-wake: disabled")
	require.Zero(t, p.used())
}

// bench is a Reconciler on a fake client, with one gateway that responds for all Functions.
type bench struct {
	*Reconciler
	t        *testing.T
	recorder *events.FakeRecorder
}

// FunctionAt implements activators: Functions here have their names as UIDs.
func (b *bench) FunctionAt(ctx context.Context, _ string, port int32) (types.UID, error) {
	list := &discoveryv1.EndpointSliceList{}
	require.NoError(b.t, b.client.List(ctx, list))
	for i := range list.Items {
		if listing, ok := activation.ListingOf(&list.Items[i]); ok && listing.Port == port {
			return listing.UID, nil
		}
	}
	return "", nil
}

func newBench(t *testing.T, functions ...types.NamespacedName) *bench {
	t.Helper()
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	gateway := slice(v4, endpoint("10.0.0.1", new(true), nil))
	gateway.ObjectMeta = metav1.ObjectMeta{Namespace: "rouse-system", Name: "g", Labels: map[string]string{discoveryv1.LabelServiceName: gatewayName}}
	objects := []client.Object{&gateway}
	for _, key := range functions {
		fn := &v1alpha2.Function{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: types.UID(key.String())},
			Spec:       v1alpha2.FunctionSpec{ScaleConfig: &v1alpha2.ScaleConfig{MinReplicas: new(int32(0))}},
		}
		objects = append(objects, fn, &corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name, UID: types.UID("service of " + key.String()),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(fn, v1alpha2.GroupVersion.WithKind("Function"))},
		}})
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithReturnManagedFields().
		WithIndex(&discoveryv1.EndpointSlice{}, serviceIndex, indexService).
		WithIndex(&discoveryv1.EndpointSlice{}, portIndex, indexPort).Build()
	b := &bench{t: t, recorder: events.NewFakeRecorder(10)}
	b.Reconciler = &Reconciler{
		client: c, applier: kube.NewApplier(c), recorder: b.recorder, clock: clocktesting.NewFakePassiveClock(noon()),
		gatewayService: types.NamespacedName{Namespace: "rouse-system", Name: gatewayName},
		scalesToZero:   func(context.Context) (bool, error) { return true, nil }, lost: func(string) bool { return false },
		activators: b, memories: newMemories(), ports: newPorts(),
	}
	b.metrics = newMetrics(prometheus.NewRegistry(), b.memories, b.ports)
	return b
}

func (b *bench) reconcile(function types.NamespacedName) ctrl.Result {
	b.t.Helper()
	result, err := b.Reconcile(b.t.Context(), ctrl.Request{NamespacedName: function})
	require.NoError(b.t, err)
	return result
}

func (b *bench) listing(function types.NamespacedName) (activation.Listing, bool) {
	b.t.Helper()
	slice := &discoveryv1.EndpointSlice{}
	key := types.NamespacedName{Namespace: function.Namespace, Name: activation.SliceName(function.Name, v4)}
	err := b.client.Get(b.t.Context(), key, slice)
	require.NoError(b.t, client.IgnoreNotFound(err))
	if err != nil {
		return activation.Listing{}, false
	}
	return activation.ListingOf(slice)
}

func TestAFunctionWithoutAPortGetsAnEventAndAffectsNoOther(t *testing.T) {
	t.Parallel()
	price, cart := types.NamespacedName{Namespace: "greedy", Name: "price"}, types.NamespacedName{Namespace: "shop", Name: "cart"}
	b := newBench(t, price, cart)
	for number := range portCount / 2 {
		require.True(t, b.ports.claim(named("greedy", number), activation.FirstPort+int32(number)))
	}
	require.GreaterOrEqual(t, b.reconcile(price).RequeueAfter, portDelay)
	require.Contains(t, <-b.recorder.Events, "Warning NoActivatorPort no port is left")
	_, found := b.listing(price)
	require.False(t, found, "without a slice the scaler keeps it awake")

	b.reconcile(cart)
	b.reconcile(cart)
	listing, found := b.listing(cart)
	require.True(t, found)
	require.Equal(t, []string{"10.0.0.1"}, listing.Addresses)

	b.ports.release(named("greedy", 1), noon())
	b.ports.release(named("greedy", 2), noon())
	b.reconcile(price)
	_, found = b.listing(price)
	require.True(t, found)
}

func TestSliceIsCreatedBeforeItsActivatorsAreQueried(t *testing.T) {
	t.Parallel()
	price := types.NamespacedName{Namespace: "shop", Name: "price"}
	b := newBench(t, price)
	require.Equal(t, checkDelay, b.reconcile(price).RequeueAfter, "no gateway can know the port yet")
	listing, found := b.listing(price)
	require.True(t, found)
	require.Empty(t, listing.Addresses)
	require.Zero(t, b.reconcile(price).RequeueAfter)
	listing, _ = b.listing(price)
	require.Equal(t, []string{"10.0.0.1"}, listing.Addresses)
	require.Zero(t, b.reconcile(price).RequeueAfter)
	require.Equal(t, time.Time{}, b.memories.byFunction[price].readySince)
}
