package watch

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/routing"
)

// Endpoints report where Services can be reached. Activators, which are among the endpoints of a Function's Service, are none, and
// neither is what is no pod of the Service's namespace.
type Endpoints struct {
	cache   cache.Cache
	watches *serviceWatches
	pods    *places
	log     logr.Logger
}

// NewEndpoints reads Services, EndpointSlices and pods from c. The log is for addresses that are left out.
func NewEndpoints(c cache.Cache, log logr.Logger) *Endpoints {
	e := &Endpoints{
		cache: c, watches: newServiceWatches(c, serviceOf, &corev1.Service{}, &discoveryv1.EndpointSlice{}), pods: newPlaces(), log: log,
	}
	e.watches.handlers = append(e.watches.handlers, handler{&corev1.Pod{}, e.pods.changed})
	return e
}

// Run reads everything before the first Watch does, which would have to wait for it, until ctx ends.
func (e *Endpoints) Run(ctx context.Context) error {
	if _, err := e.watches.register(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// Watch calls apply with all endpoints of the Service's port, sorted by address, until ctx ends. There are
// none while the Service or its port does not exist.
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

// serviceOf is the Service that an object is, or whose pods it lists.
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
