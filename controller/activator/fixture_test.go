package activator

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/kube"
	"github.com/rouse-run/rouse/internal/testing/envtest"
)

const (
	timeout = time.Minute
	tick    = 20 * time.Millisecond

	gatewayName = "rouse-gateway"
	v4          = discoveryv1.AddressTypeIPv4
	v6          = discoveryv1.AddressTypeIPv6
)

// cluster is the control plane of all tests here.
var cluster = envtest.New()

func TestMain(m *testing.M) { os.Exit(cluster.Main(m)) }

func await[T any](t *testing.T, events <-chan T) {
	t.Helper()
	select {
	case <-events:
	case <-time.After(timeout):
		require.FailNow(t, "it did not happen in time")
	}
}

// fixture is a namespace with gateways, and a controller when the test has started one.
type fixture struct {
	client.Client
	t         *testing.T
	namespace string
	network   *network
	idle      idle
	noKEDA    atomic.Bool
	registry  *prometheus.Registry
}

// idle sends announcements to the controller.
type idle chan types.NamespacedName

// WatchIdle implements Announcements.
func (i idle) WatchIdle(ctx context.Context, apply func(types.NamespacedName)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case function := <-i:
			apply(function)
		}
	}
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	env := cluster.Environment(t)
	w := &fixture{Client: env.Client, t: t, namespace: env.Namespace(t), network: newNetwork(), idle: make(idle)}
	t.Cleanup(func() { // so that the next controller has no work here
		for _, kind := range []client.Object{&v1alpha2.Function{}, &corev1.Service{}, &discoveryv1.EndpointSlice{}} {
			require.NoError(t, w.DeleteAllOf(context.Background(), kind, client.InNamespace(w.namespace)))
		}
	})
	return w
}

// start runs a controller until the returned function, or the test, ends it.
func (w *fixture) start(change ...func(*Options)) (stop func()) {
	w.t.Helper()
	ctrllog.SetLogger(logr.Discard())
	scheme, err := kube.NewScheme()
	require.NoError(w.t, err)
	controllers := config.Controller{SkipNameValidation: new(true)} // controllers run one after the other
	mgr, err := ctrl.NewManager(cluster.Environment(w.t).Config, ctrl.Options{
		Scheme:     scheme,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Cache:      cache.Options{ByObject: CacheObjects()},
		Controller: controllers,
	})
	require.NoError(w.t, err)
	options := Options{GatewayService: types.NamespacedName{Namespace: w.namespace, Name: gatewayName}}
	for _, c := range change {
		c(&options)
	}
	w.registry = prometheus.NewRegistry()
	require.NoError(w.t, Setup(w.t.Context(), mgr, Parts{
		Registerer: w.registry, Announcements: w.idle, Dial: w.network.dial,
		ScalesToZero: func(context.Context) (bool, error) { return !w.noKEDA.Load(), nil },
	}, options))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			cancel()
			require.NoError(w.t, <-ended)
			stopped = true
		}
	}
	w.t.Cleanup(stop)
	return stop
}

// function creates a Function that may sleep, with its Service.
func (w *fixture) function(name string, change ...func(*v1alpha2.Function)) *v1alpha2.Function {
	w.t.Helper()
	fn := &v1alpha2.Function{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: v1alpha2.FunctionSpec{
			Runtime:     v1alpha2.RuntimeNodeJS22,
			ScaleConfig: &v1alpha2.ScaleConfig{MinReplicas: new(int32(0)), MaxReplicas: new(int32(3))},
			Source:      v1alpha2.Source{Inline: &v1alpha2.InlineSource{Source: "module.exports = { main: () => 'ok' }"}},
		},
	}
	for _, c := range change {
		c(fn)
	}
	require.NoError(w.t, w.Create(w.t.Context(), fn))
	w.service(name, *metav1.NewControllerRef(fn, v1alpha2.GroupVersion.WithKind("Function")))
	return fn
}

func (w *fixture) service(name string, owners ...metav1.OwnerReference) *corev1.Service {
	w.t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, OwnerReferences: owners},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: activation.PortName, Port: activation.ServicePort}}},
	}
	require.NoError(w.t, w.Create(w.t.Context(), service))
	return service
}

// workload creates the Service of a workload that is no Function and that HTTP wakes.
func (w *fixture) workload(name string, target intstr.IntOrString) *corev1.Service {
	w.t.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name, Annotations: map[string]string{
			v1alpha2.AnnotationScaleTarget: "deployment/" + name, v1alpha2.AnnotationHTTPWake: v1alpha2.HTTPWakeEnabled,
		}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Name: "web", Port: 8000, TargetPort: target}},
		},
	}
	require.NoError(w.t, w.Create(w.t.Context(), service))
	return service
}

// listEndpoints writes a slice of a Service as Kubernetes' own controller does.
func (w *fixture) listEndpoints(service string, family discoveryv1.AddressType, endpoints ...discoveryv1.Endpoint) {
	w.t.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: service + "-by-kubernetes-" + map[discoveryv1.AddressType]string{v4: "4", v6: "6"}[family],
			Labels: map[string]string{discoveryv1.LabelServiceName: service, discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io"},
		},
		AddressType: family,
	}
	err := w.Get(w.t.Context(), client.ObjectKeyFromObject(slice), slice)
	require.NoError(w.t, client.IgnoreNotFound(err))
	slice.Endpoints = endpoints
	if err != nil {
		require.NoError(w.t, w.Create(w.t.Context(), slice))
		return
	}
	require.NoError(w.t, w.Update(w.t.Context(), slice))
}

// pods sets whether a pod of a Function is ready.
func (w *fixture) pods(function string, ready bool) {
	w.t.Helper()
	w.listEndpoints(function, v4, endpoint("10.1.0.1", new(ready), new(false)))
}

// gateway starts a fake gateway. It finds Functions as a real one does, by the slices that list it.
func (w *fixture) gateway(address string) (stop func()) {
	w.t.Helper()
	return w.network.serve(w.t, address, func(response http.ResponseWriter, r *http.Request) {
		port, _ := strconv.Atoi(r.Host[strings.LastIndexByte(r.Host, ':')+1:])
		if port == GatewayPort {
			return
		}
		list := &discoveryv1.EndpointSliceList{}
		if err := w.List(r.Context(), list, client.InNamespace(w.namespace)); err != nil {
			response.WriteHeader(http.StatusInternalServerError)
			return
		}
		for i := range list.Items {
			if listing, ok := activation.ListingOf(&list.Items[i]); ok && listing.Port == int32(port) {
				response.Header().Set(activation.HeaderFunction, string(listing.UID))
				return
			}
		}
		response.WriteHeader(http.StatusNotFound)
	})
}

// gateways starts these gateways and makes them ready.
func (w *fixture) gateways(family discoveryv1.AddressType, addresses ...string) {
	w.t.Helper()
	var endpoints []discoveryv1.Endpoint
	for _, address := range addresses {
		w.gateway(address)
		endpoints = append(endpoints, endpoint(address, new(true), new(false)))
	}
	w.listEndpoints(gatewayName, family, endpoints...)
}

// slice returns the slice of a Function and a family, nil when it does not exist.
func (w *fixture) slice(function string, family discoveryv1.AddressType) *discoveryv1.EndpointSlice {
	w.t.Helper()
	slice := &discoveryv1.EndpointSlice{}
	key := client.ObjectKey{Namespace: w.namespace, Name: activation.SliceName(function, family)}
	err := w.Get(w.t.Context(), key, slice)
	require.NoError(w.t, client.IgnoreNotFound(err))
	if err != nil {
		return nil
	}
	return slice
}

// listing returns the content of the slice.
func (w *fixture) listing(function string, family discoveryv1.AddressType) (activation.Listing, bool) {
	w.t.Helper()
	slice := w.slice(function, family)
	if slice == nil {
		return activation.Listing{}, false
	}
	return activation.ListingOf(slice)
}

// awaitListed waits until exactly these gateways are listed for a Function, or until the slice is empty.
func (w *fixture) awaitListed(function string, family discoveryv1.AddressType, addresses ...string) activation.Listing {
	w.t.Helper()
	var found activation.Listing
	require.Eventually(w.t, func() bool {
		listing, ok := w.listing(function, family)
		found = listing
		return ok && slices.Equal(listing.Addresses, addresses)
	}, timeout, tick, "%s lists %v", function, addresses)
	return found
}

// awaitNone waits until no slice of a Function lists activators.
func (w *fixture) awaitNone(function string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return w.slice(function, v4) == nil && w.slice(function, v6) == nil }, timeout, tick)
}

// awaitMetric waits for the value of a metric without labels.
func (w *fixture) awaitMetric(name string, want float64) {
	w.t.Helper()
	require.Eventually(w.t, func() bool {
		families, err := w.registry.Gather()
		require.NoError(w.t, err)
		for _, family := range families {
			if family.GetName() != name {
				continue
			}
			metric := family.GetMetric()[0]
			return metric.GetGauge().GetValue()+metric.GetCounter().GetValue() == want
		}
		return false
	}, timeout, tick, "%s is %v", name, want)
}

// update changes a Function.
func (w *fixture) update(fn *v1alpha2.Function, change func(*v1alpha2.Function)) {
	w.t.Helper()
	before := fn.DeepCopy()
	change(fn)
	require.NoError(w.t, w.Patch(w.t.Context(), fn, client.MergeFrom(before)))
}

func (w *fixture) serviceOf(function string) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: function}}
}

// forge creates a slice with the labels of activators.
func (w *fixture) forge(name, service string, port int32, change ...func(*discoveryv1.EndpointSlice)) *discoveryv1.EndpointSlice {
	w.t.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: w.namespace, Name: name, Labels: map[string]string{discoveryv1.LabelManagedBy: activation.ManagedBy}},
		AddressType: v4,
		Ports:       []discoveryv1.EndpointPort{{Name: new(activation.PortName), Port: new(port)}},
		Endpoints:   []discoveryv1.Endpoint{endpoint("10.6.6.6", new(true), nil)},
	}
	if service != "" {
		slice.Labels[discoveryv1.LabelServiceName] = service
	}
	for _, c := range change {
		c(slice)
	}
	require.NoError(w.t, w.Create(w.t.Context(), slice, client.FieldOwner("tenant")))
	return slice
}

func (w *fixture) exists(slice *discoveryv1.EndpointSlice) bool {
	w.t.Helper()
	err := w.Get(w.t.Context(), client.ObjectKeyFromObject(slice), &discoveryv1.EndpointSlice{})
	require.NoError(w.t, client.IgnoreNotFound(err))
	return err == nil
}

// forAnother is the handler of a gateway that responds for another Function.
func forAnother(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set(activation.HeaderFunction, "another")
}
