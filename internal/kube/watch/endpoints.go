package watch

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/internal/routing"
)

// Endpoints report where Services can be reached. All watches share two handlers, one for Services and one
// for EndpointSlices, that wake only the watches of the Service that changed.
type Endpoints struct {
	cache cache.Cache

	mu       sync.Mutex
	inStep   []toolscache.InformerSynced // empty until the handlers are registered
	watchers map[types.NamespacedName]map[signal]struct{}
}

// NewEndpoints reads Services and EndpointSlices from c.
func NewEndpoints(c cache.Cache) *Endpoints {
	return &Endpoints{cache: c, watchers: map[types.NamespacedName]map[signal]struct{}{}}
}

// Watch calls apply with all endpoints of the Service's port, sorted by address, until ctx ends. There are
// none while the Service or its port does not exist.
func (e *Endpoints) Watch(
	ctx context.Context, service types.NamespacedName, port int32, apply func([]routing.Endpoint),
) error {
	changed := newSignal()
	e.add(service, changed)
	defer e.remove(service, changed)
	inStep, err := e.register(ctx)
	if err != nil {
		return err
	}
	if ok, err := awaitSync(ctx, e.cache, inStep...); !ok {
		return err
	}
	return follow(ctx, changed, func(ctx context.Context) ([]routing.Endpoint, error) {
		return e.read(ctx, service, port)
	}, apply)
}

// register installs the handlers at the first watch. They stay for the life of the cache.
func (e *Endpoints) register(ctx context.Context) ([]toolscache.InformerSynced, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.inStep) > 0 {
		return e.inStep, nil
	}
	removeServices, servicesInStep, err := onChange(ctx, e.cache, &corev1.Service{}, e.changed)
	if err != nil {
		return nil, err
	}
	_, slicesInStep, err := onChange(ctx, e.cache, &discoveryv1.EndpointSlice{}, e.changed)
	if err != nil {
		removeServices()
		return nil, err
	}
	e.inStep = []toolscache.InformerSynced{servicesInStep, slicesInStep}
	return e.inStep, nil
}

func (e *Endpoints) add(service types.NamespacedName, changed signal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.watchers[service] == nil {
		e.watchers[service] = map[signal]struct{}{}
	}
	e.watchers[service][changed] = struct{}{}
}

func (e *Endpoints) remove(service types.NamespacedName, changed signal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.watchers[service], changed)
	if len(e.watchers[service]) == 0 {
		delete(e.watchers, service)
	}
}

// changed wakes the watches of the Service that an object is or belongs to.
func (e *Endpoints) changed(before, after any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, obj := range []any{before, after} {
		for changed := range e.watchers[serviceOf(obj)] {
			changed.raise()
		}
	}
}

func serviceOf(obj any) types.NamespacedName {
	switch obj := obj.(type) {
	case *corev1.Service:
		return client.ObjectKeyFromObject(obj)
	case *discoveryv1.EndpointSlice:
		return types.NamespacedName{Namespace: obj.Namespace, Name: obj.Labels[discoveryv1.LabelServiceName]}
	default:
		return types.NamespacedName{}
	}
}

func (e *Endpoints) read(ctx context.Context, name types.NamespacedName, port int32) ([]routing.Endpoint, error) {
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
	return endpointsOf(&service, slices.Items, port), nil
}
