package watch

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// serviceWatches are many watches of a Service each. They share one handler for each kind of object, which wakes only the watches
// of the Service that an object belongs to.
type serviceWatches struct {
	cache     cache.Cache
	serviceOf func(obj any) types.NamespacedName // zero for an object that matters to none
	handlers  []handler

	mu      sync.Mutex
	inStep  []toolscache.InformerSynced // empty until the handlers are registered
	signals map[types.NamespacedName]map[signal]struct{}
}

// handler is told what changes in a kind of object.
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

// followService calls apply with what read finds of a Service, at once and after each change, until ctx ends. A change of another
// kind than those of w is one that raises the signal.
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

// register installs the handlers at the first watch. They stay for the life of the cache.
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

// changed wakes the watches of the Service that an object belongs to, or belonged to.
func (w *serviceWatches) changed(before, after any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, obj := range []any{before, after} {
		for changed := range w.signals[w.serviceOf(obj)] {
			changed.raise()
		}
	}
}
