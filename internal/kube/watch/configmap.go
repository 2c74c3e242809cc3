package watch

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// Content is what a ConfigMap holds.
type Content struct {
	Found bool // false: there is no such ConfigMap
	UID   types.UID
	Data  map[string]string
}

// ConfigMap calls apply with what the ConfigMap holds, until ctx ends. The cache should hold no others.
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
