package watch

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Annotation calls apply with each object of a kind that has the annotation, with its value, and again when that changes; with an
// empty value when the annotation or the object is gone. Calls come one at a time, until ctx ends.
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
