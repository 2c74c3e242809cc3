package alias

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/rouse-run/rouse/internal/kube/watch"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

const (
	timeout = time.Minute
	tick    = 20 * time.Millisecond
)

var cluster = envtest.New()

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

// fixture is a Service of bridges in one namespace and its alias in another, with a running controller.
type fixture struct {
	client.Client
	t     *testing.T
	alias watch.PublisherAlias
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	env := cluster.Environment(t)
	f := &fixture{Client: env.Client, t: t, alias: watch.PublisherAlias{
		Service: types.NamespacedName{Namespace: env.Namespace(t), Name: "publisher"},
		Target:  types.NamespacedName{Namespace: env.Namespace(t), Name: "bridges"},
	}}
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{
		Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	require.NoError(t, err)
	require.NoError(t, Setup(mgr, f.alias))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
	})
	return f
}

// createAlias creates the Service that the chart brings.
func (f *fixture) createAlias() {
	f.t.Helper()
	require.NoError(f.t, f.Create(f.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.alias.Service.Namespace, Name: f.alias.Service.Name},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{
			{Name: "http-client", Port: 80, TargetPort: intstr.FromInt32(8080)},
		}},
	}))
}

// list has a slice of the bridges list endpoints with these addresses.
func (f *fixture) list(name string, family discoveryv1.AddressType, addresses ...string) {
	f.t.Helper()
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: f.alias.Target.Namespace, Name: name}}
	require.NoError(f.t, client.IgnoreNotFound(f.Delete(f.t.Context(), slice)))
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: f.alias.Target.Name}
	slice.AddressType = family
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(address != "10.0.0.9")}, NodeName: new("node"),
		})
	}
	require.NoError(f.t, f.Create(f.t.Context(), slice))
}

func (f *fixture) slice(name string) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{}
	if err := f.Get(f.t.Context(), client.ObjectKey{Namespace: f.alias.Service.Namespace, Name: name}, slice); err != nil {
		return nil
	}
	return slice
}

// awaitAddresses waits until the alias's slice lists these.
func (f *fixture) awaitAddresses(name string, addresses ...string) *discoveryv1.EndpointSlice {
	f.t.Helper()
	var found *discoveryv1.EndpointSlice
	require.Eventually(f.t, func() bool {
		if found = f.slice(name); found == nil || len(found.Endpoints) != len(addresses) {
			return false
		}
		for i, endpoint := range found.Endpoints {
			if endpoint.Addresses[0] != addresses[i] {
				return false
			}
		}
		return true
	}, timeout, tick)
	return found
}

func TestTheAliasHasTheEndpointsOfTheBridgesAtItsPorts(t *testing.T) {
	f := newFixture(t)
	f.list("one", discoveryv1.AddressTypeIPv4, "10.0.0.9", "10.0.0.1")
	f.list("two", discoveryv1.AddressTypeIPv4, "10.0.0.2")
	f.createAlias()
	slice := f.awaitAddresses("publisher-ipv4", "10.0.0.1", "10.0.0.2", "10.0.0.9")
	require.Equal(t, []discoveryv1.EndpointPort{
		{Name: new("http-client"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)},
	}, slice.Ports)
	require.True(t, *slice.Endpoints[0].Conditions.Ready)
	require.False(t, *slice.Endpoints[2].Conditions.Ready, "a bridge that is not ready gets no requests here either")
	require.Equal(t, "node", *slice.Endpoints[0].NodeName)
	require.Equal(t, f.alias.Service.Name, slice.Labels[discoveryv1.LabelServiceName])
	require.Equal(t, "publisher", metav1.GetControllerOf(slice).Name, "it goes with the alias")
}

func TestTheAliasFollowsTheBridges(t *testing.T) {
	f := newFixture(t)
	f.createAlias()
	f.list("one", discoveryv1.AddressTypeIPv4, "10.0.0.1")
	f.list("six", discoveryv1.AddressTypeIPv6, "fd00::1")
	f.awaitAddresses("publisher-ipv4", "10.0.0.1")
	f.awaitAddresses("publisher-ipv6", "fd00::1")
	f.list("one", discoveryv1.AddressTypeIPv4, "10.0.0.2")
	f.awaitAddresses("publisher-ipv4", "10.0.0.2")
	f.list("one", discoveryv1.AddressTypeIPv4)
	f.awaitAddresses("publisher-ipv4")
}

func TestWhatOthersWriteToTheAliasIsUndone(t *testing.T) {
	f := newFixture(t)
	f.createAlias()
	f.list("one", discoveryv1.AddressTypeIPv4, "10.0.0.1")
	slice := f.awaitAddresses("publisher-ipv4", "10.0.0.1")
	slice.Endpoints[0].Addresses[0] = "10.6.6.6"
	require.NoError(t, f.Update(t.Context(), slice))
	f.awaitAddresses("publisher-ipv4", "10.0.0.1")
	require.NoError(t, f.Delete(t.Context(), slice))
	f.awaitAddresses("publisher-ipv4", "10.0.0.1")
}

func TestASliceOfAnotherOwnerStaysAsItIs(t *testing.T) {
	f := newFixture(t)
	f.createAlias()
	foreign := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.alias.Service.Namespace, Name: "publisher-ipv4",
			Labels: map[string]string{discoveryv1.LabelServiceName: f.alias.Service.Name},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.6.6.6"}}},
	}
	require.NoError(t, f.Create(t.Context(), foreign))
	f.list("one", discoveryv1.AddressTypeIPv4, "10.0.0.1")
	f.list("six", discoveryv1.AddressTypeIPv6, "fd00::1")
	f.awaitAddresses("publisher-ipv6", "fd00::1")
	require.Equal(t, "10.6.6.6", f.slice("publisher-ipv4").Endpoints[0].Addresses[0])
}
