package watch

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var errOutOfStep = errors.New("the cache does not get in step with the API server")

// signal wakes one waiter. Raising it repeatedly wakes the waiter once.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// onChange calls handle with the objects of each add, update and delete of kind. Its registration is in sync once the
// present objects have been handled.
func onChange(
	ctx context.Context, c cache.Cache, kind client.Object, handle func(before, after any),
) (remove func(), inStep func() bool, err error) {
	informer, err := c.GetInformer(ctx, kind)
	if err != nil {
		return nil, nil, fmt.Errorf("watch %T: %w", kind, err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { handle(nil, obj) },
		UpdateFunc: handle,
		DeleteFunc: func(obj any) {
			if last, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = last.Obj
			}
			handle(obj, nil)
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("watch %T: %w", kind, err)
	}
	remove = func() { _ = informer.RemoveEventHandler(registration) } // fails only when the informer is gone
	return remove, registration.HasSynced, nil
}

// awaitSync waits until the cache and the handlers are in sync. It returns false when ctx ended first.
func awaitSync(ctx context.Context, c cache.Cache, inStep ...toolscache.InformerSynced) (bool, error) {
	if c.WaitForCacheSync(ctx) && toolscache.WaitForCacheSync(ctx.Done(), inStep...) {
		return true, nil
	}
	if ctx.Err() == nil {
		return false, errOutOfStep
	}
	return false, nil
}

// follow calls apply with the result of read, at first and whenever changed is raised, if it differs from the last one.
func follow[T any](ctx context.Context, changed signal, read func(context.Context) (T, error), apply func(T)) error {
	var last T
	for first := true; ; first = false {
		current, err := read(ctx)
		if err != nil {
			return err
		}
		if first || !reflect.DeepEqual(current, last) {
			apply(current)
			last = current
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// Annotation calls apply with each object of a kind that has the annotation, with its value, and again when the value
// changes; with an empty value when the annotation or the object is removed. It makes one call at a time, until ctx
// ends.
func Annotation(ctx context.Context, c cache.Cache, kind client.Object, key string, apply func(client.Object, string)) error {
	remove, _, err := onChange(ctx, c, kind, func(before, after any) {
		object, old := annotated(before, key)
		now, value := annotated(after, key)
		if now != nil {
			object = now
		}
		if object != nil && value != old {
			apply(object, value)
		}
	})
	if err != nil {
		return err
	}
	<-ctx.Done()
	remove()
	return nil
}

func annotated(obj any, key string) (client.Object, string) {
	object, ok := obj.(client.Object)
	if !ok {
		return nil, ""
	}
	return object, object.GetAnnotations()[key]
}

// Content is the data of a ConfigMap.
type Content struct {
	Found bool // false: the ConfigMap does not exist
	UID   types.UID
	Data  map[string]string
}

// ConfigMap calls apply with the data of the ConfigMap, until ctx ends. The cache should hold no other ConfigMaps.
func ConfigMap(ctx context.Context, c cache.Cache, name types.NamespacedName, apply func(Content)) error {
	changed := newSignal()
	remove, inStep, err := onChange(ctx, c, &corev1.ConfigMap{}, func(_, _ any) { changed.raise() })
	if err != nil {
		return err
	}
	defer remove()
	if ok, err := awaitSync(ctx, c, inStep); !ok {
		return err
	}
	return follow(ctx, changed, func(ctx context.Context) (Content, error) {
		object := &corev1.ConfigMap{}
		err := c.Get(ctx, name, object)
		if apierrors.IsNotFound(err) {
			return Content{}, nil
		}
		if err != nil {
			return Content{}, fmt.Errorf("read ConfigMap %s: %w", name, err)
		}
		return Content{Found: true, UID: object.UID, Data: object.Data}, nil
	}, apply)
}
