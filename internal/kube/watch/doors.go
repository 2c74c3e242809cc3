package watch

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	rousev1alpha1 "github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/door"
)

// Doors watches the Doors of the cluster and the Secret with their keys.
type Doors struct {
	cache cache.Cache
	keys  types.NamespacedName
}

// NewDoors returns Doors that are read from c, which DoorKeys has to limit.
func NewDoors(c cache.Cache, keys types.NamespacedName) *Doors { return &Doors{c, keys} }

// DoorKeys limits a cache to the one Secret with the keys of Doors.
func DoorKeys(keys types.NamespacedName) map[client.Object]cache.ByObject {
	return map[client.Object]cache.ByObject{&corev1.Secret{}: {Namespaces: map[string]cache.Config{
		keys.Namespace: {FieldSelector: fields.OneTermEqualSelector("metadata.name", keys.Name)},
	}}}
}

// Watch calls apply with all Doors, sorted by name, until ctx ends. Nobody may change them. While the cluster does not know the kind,
// there are none.
func (d *Doors) Watch(ctx context.Context, apply func([]door.Known)) error {
	changed := newSignal()
	remove, inStep, err := onChange(ctx, d.cache, &rousev1alpha1.Door{}, func(before, after any) {
		if doorDiffers(before, after) {
			changed.raise()
		}
	})
	if meta.IsNoMatchError(err) {
		apply(nil)
		awaitKind(ctx)
		return nil
	}
	if err != nil {
		return err
	}
	defer remove()
	removeKeys, keysInStep, err := onChange(ctx, d.cache, &corev1.Secret{}, func(_, _ any) { changed.raise() })
	if err != nil {
		return err
	}
	defer removeKeys()
	if ok, err := awaitSync(ctx, d.cache, inStep, keysInStep); !ok {
		return err
	}
	return follow(ctx, changed, d.read, apply)
}

func (d *Doors) read(ctx context.Context) ([]door.Known, error) {
	var list rousev1alpha1.DoorList
	if err := d.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Doors: %w", err)
	}
	ring, err := readKeys(ctx, d.cache, d.keys)
	if err != nil {
		return nil, err
	}
	all := make([]door.Known, len(list.Items))
	for i := range list.Items {
		each := &list.Items[i]
		all[i] = door.Known{Door: each, Keys: ring.of(each)}
	}
	slices.SortFunc(all, func(a, b door.Known) int {
		return strings.Compare(a.Door.Namespace+"/"+a.Door.Name, b.Door.Namespace+"/"+b.Door.Name)
	})
	return all, nil
}

// keyring are the keys of Doors and of Subscriptions that sign.
type keyring map[string][]byte

// readKeys reads the Secret with all keys. Without its name there are none.
func readKeys(ctx context.Context, from client.Reader, name types.NamespacedName) (keyring, error) {
	if name.Name == "" {
		return nil, nil
	}
	secret := &corev1.Secret{}
	if err := from.Get(ctx, name, secret, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get Secret %s: %w", name, err)
	}
	return secret.Data, nil
}

// of returns the keys of an object, nil without any.
func (k keyring) of(owner metav1.Object) *door.Keys {
	current, known := k[door.KeyName(owner, door.KeyCurrent)]
	if !known {
		return nil
	}
	return &door.Keys{Current: current, Previous: k[door.KeyName(owner, door.KeyPrevious)]}
}
