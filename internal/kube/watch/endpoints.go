package watch

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/routing"
)

// Endpoints reports the endpoints of Services. It leaves out activators, which are among the endpoints of a Function's
// Service, and addresses that do not belong to a pod of the Service's namespace.
type Endpoints struct {
	cache   cache.Cache
	watches *serviceWatches
	pods    *places
	log     logr.Logger
}

// NewEndpoints returns Endpoints that read Services, EndpointSlices and pods from c, and log addresses that are left
// out.
func NewEndpoints(c cache.Cache, log logr.Logger) *Endpoints {
	e := &Endpoints{
		cache: c, watches: newServiceWatches(c, serviceOf, &corev1.Service{}, &discoveryv1.EndpointSlice{}), pods: newPlaces(), log: log,
	}
	e.watches.handlers = append(e.watches.handlers, handler{&corev1.Pod{}, e.pods.changed})
	return e
}

// Run registers the handlers before the first Watch, which would otherwise have to wait for them.
func (e *Endpoints) Run(ctx context.Context) error {
	if _, err := e.watches.register(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// Watch calls apply with all endpoints of the Service's port, sorted by address, until ctx ends. activation.OnlyPortOfService is the one
// that the Service has. The list is empty while the Service or its port does not exist.
func (e *Endpoints) Watch(
	ctx context.Context, service types.NamespacedName, port int32, apply func([]routing.Endpoint),
) error {
	changed := newSignal()
	defer e.pods.forget(changed)
	left := &outsiders{log: e.log.WithValues("service", service)}
	defer left.stop()
	return followService(ctx, e.watches, service, changed, func(ctx context.Context) (endpoints []routing.Endpoint, err error) {
		err = left.read(e.pods.ask(changed, service.Namespace), func(isPod func(netip.Addr) bool) error {
			endpoints, err = e.read(ctx, service, port, isPod)
			return err
		})
		return endpoints, err
	}, apply)
}

// serviceOf returns the Service that an object is, or that it belongs to.
func serviceOf(obj any) types.NamespacedName {
	switch obj := obj.(type) {
	case *corev1.Service:
		return client.ObjectKeyFromObject(obj)
	case *discoveryv1.EndpointSlice:
		if activation.IsOurs(obj) {
			return types.NamespacedName{}
		}
		return types.NamespacedName{Namespace: obj.Namespace, Name: obj.Labels[discoveryv1.LabelServiceName]}
	default:
		return types.NamespacedName{}
	}
}

func (e *Endpoints) read(
	ctx context.Context, name types.NamespacedName, port int32, isPod func(netip.Addr) bool,
) ([]routing.Endpoint, error) {
	var service corev1.Service
	if err := e.cache.Get(ctx, name, &service); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("get Service %s: %w", name, err)
	}
	var slices discoveryv1.EndpointSliceList
	err := e.cache.List(ctx, &slices, client.InNamespace(name.Namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: name.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list EndpointSlices of %s: %w", name, err)
	}
	return endpointsOf(&service, slices.Items, port, isPod), nil
}

// serviceWatches holds watches of individual Services. They share one handler for each kind of object, which notifies
// only the watches of the Service that an object belongs to.
type serviceWatches struct {
	cache     cache.Cache
	serviceOf func(obj any) types.NamespacedName // zero for an irrelevant object
	handlers  []handler

	mu      sync.Mutex
	inStep  []toolscache.InformerSynced // empty until the handlers are registered
	signals map[types.NamespacedName]map[signal]struct{}
}

// handler handles the changes of a kind of object.
type handler struct {
	kind    client.Object
	changed func(before, after any)
}

func newServiceWatches(c cache.Cache, serviceOf func(any) types.NamespacedName, kinds ...client.Object) *serviceWatches {
	w := &serviceWatches{cache: c, serviceOf: serviceOf, signals: map[types.NamespacedName]map[signal]struct{}{}}
	for _, kind := range kinds {
		w.handlers = append(w.handlers, handler{kind, w.changed})
	}
	return w
}

// followService calls apply with the result of read for a Service, at once and after each change, until ctx ends.
// changed signals changes of kinds other than those of w.
func followService[T any](
	ctx context.Context, w *serviceWatches, service types.NamespacedName, changed signal, read func(context.Context) (T, error), apply func(T),
) error {
	w.add(service, changed)
	defer w.remove(service, changed)
	inStep, err := w.register(ctx)
	if err != nil {
		return err
	}
	if ok, err := awaitSync(ctx, w.cache, inStep...); !ok {
		return err
	}
	return follow(ctx, changed, read, apply)
}

// register installs the handlers at the first watch. They remain installed as long as the cache lives.
func (w *serviceWatches) register(ctx context.Context) ([]toolscache.InformerSynced, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.inStep) > 0 {
		return w.inStep, nil
	}
	var all []toolscache.InformerSynced
	var undo []func()
	for _, h := range w.handlers {
		remove, inStep, err := onChange(ctx, w.cache, h.kind, h.changed)
		if err != nil {
			for _, remove := range undo {
				remove()
			}
			return nil, err
		}
		all, undo = append(all, inStep), append(undo, remove)
	}
	w.inStep = all
	return all, nil
}

func (w *serviceWatches) add(service types.NamespacedName, changed signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.signals[service] == nil {
		w.signals[service] = map[signal]struct{}{}
	}
	w.signals[service][changed] = struct{}{}
}

func (w *serviceWatches) remove(service types.NamespacedName, changed signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.signals[service], changed)
	if len(w.signals[service]) == 0 {
		delete(w.signals, service)
	}
}

// changed notifies the watches of the Service that an object belongs to, or belonged to.
func (w *serviceWatches) changed(before, after any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, obj := range []any{before, after} {
		for changed := range w.signals[w.serviceOf(obj)] {
			changed.raise()
		}
	}
}

// endpointsOf returns the endpoints of a Service's port. Slices name ports as the Service does; their numbers are those
// of the pods. Pods that are reached through gateways alone are in slices without the port, whose number the Service has. It
// leaves out slices of activators, and addresses for which isPod returns false: anyone who may write slices can enter any
// address. A Service of two IP families has the endpoints of its first. An ExternalName Service, which anyone may write, has
// no endpoints.
func endpointsOf(
	service *corev1.Service, items []discoveryv1.EndpointSlice, port int32, isPod func(netip.Addr) bool,
) []routing.Endpoint {
	asked, found := servicePort(service, port)
	if !found || service.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	function := activation.FunctionOf(service) != "" // whose server listens as soon as it can respond
	byAddress := map[string]routing.Endpoint{}
	for i := range items {
		slice := &items[i]
		number, served := portNumber(slice, asked)
		if !served || !listsPods(slice) || !ofFamily(service, slice) {
			continue
		}
		for j := range slice.Endpoints {
			current, ok := endpointOf(&slice.Endpoints[j], number, isPod)
			if !ok {
				continue
			}
			current.Function = function
			if other, twice := byAddress[current.Address]; !twice || !other.Ready { // a moving endpoint is in two slices
				byAddress[current.Address] = current
			}
		}
	}
	return slices.SortedFunc(maps.Values(byAddress), func(a, b routing.Endpoint) int { return strings.Compare(a.Address, b.Address) })
}

// endpointOf returns false for an endpoint that is not a pod. It uses the first address, as Kubernetes does.
func endpointOf(endpoint *discoveryv1.Endpoint, port int32, isPod func(netip.Addr) bool) (routing.Endpoint, bool) {
	if len(endpoint.Addresses) == 0 {
		return routing.Endpoint{}, false
	}
	ip, err := netip.ParseAddr(endpoint.Addresses[0])
	if err != nil || !isPod(ip.Unmap()) {
		return routing.Endpoint{}, false
	}
	return routing.Endpoint{
		Address:     net.JoinHostPort(ip.Unmap().String(), strconv.Itoa(int(port))),
		Ready:       ptr.Deref(endpoint.Conditions.Ready, true),
		Terminating: ptr.Deref(endpoint.Conditions.Terminating, false),
	}, true
}

// servicePort returns a port of TCP by its number, or the only one.
func servicePort(service *corev1.Service, number int32) (corev1.ServicePort, bool) {
	if number == activation.OnlyPortOfService {
		return activation.OnlyPort(service)
	}
	for _, p := range service.Spec.Ports {
		if p.Port == number && (p.Protocol == "" || p.Protocol == corev1.ProtocolTCP) {
			return p, true
		}
	}
	return corev1.ServicePort{}, false
}

// portNumber returns the number at which the pods of a slice serve a port. The Service has that of pods behind gateways.
func portNumber(slice *discoveryv1.EndpointSlice, asked corev1.ServicePort) (int32, bool) {
	for _, p := range slice.Ports {
		if ptr.Deref(p.Name, "") == asked.Name && p.Port != nil && ptr.Deref(p.Protocol, corev1.ProtocolTCP) == corev1.ProtocolTCP {
			return *p.Port, true
		}
	}
	return activation.PodPort(asked)
}

// listsPods is false for a slice of activators, and for a slice that is being deleted.
func listsPods(slice *discoveryv1.EndpointSlice) bool {
	return !activation.IsOurs(slice) && slice.DeletionTimestamp.IsZero()
}

func ofFamily(service *corev1.Service, slice *discoveryv1.EndpointSlice) bool {
	if slice.AddressType == discoveryv1.AddressTypeFQDN {
		return false
	}
	return len(service.Spec.IPFamilies) == 0 || string(slice.AddressType) == string(service.Spec.IPFamilies[0])
}

const (
	// outsiderPatience is the time before an address without a pod is logged: slices often contain an address before
	// the pod itself is read.
	outsiderPatience = 10 * time.Second
	// outsiderPause is the minimum time between two log lines about a Service.
	outsiderPause = 10 * time.Minute
)

// outsiders logs, once, that a Service has addresses that belong to no pod of its namespace.
type outsiders struct {
	log logr.Logger

	mu    sync.Mutex
	first netip.Addr
	count int
	timer *time.Timer // set while there are such addresses
	quiet time.Time   // no log line before this time
}

// read calls reading with isPod, and counts the addresses for which isPod returns false.
func (o *outsiders) read(isPod func(netip.Addr) bool, reading func(isPod func(netip.Addr) bool) error) error {
	var first netip.Addr
	count := 0
	err := reading(func(address netip.Addr) bool {
		if isPod(address) {
			return true
		}
		if count == 0 {
			first = address
		}
		count++
		return false
	})
	if err == nil {
		o.note(first, count)
	}
	return err
}

func (o *outsiders) note(first netip.Addr, count int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.first, o.count = first, count
	switch {
	case count == 0 && o.timer != nil:
		o.timer.Stop()
		o.timer = nil
	case count > 0 && o.timer == nil:
		o.timer = time.AfterFunc(max(outsiderPatience, time.Until(o.quiet)), o.report)
	}
}

func (o *outsiders) report() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.count == 0 {
		return
	}
	o.quiet = time.Now().Add(outsiderPause)
	o.log.Info("addresses of a Service belong to no pod of its namespace and receive no requests", "address", o.first.String(), "addresses", o.count)
}

// stop ends the logging for the Service.
func (o *outsiders) stop() { o.note(netip.Addr{}, 0) }
