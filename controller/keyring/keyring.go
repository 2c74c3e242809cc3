package keyring

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/door"
	"github.com/rouse-run/rouse/internal/kube"
)

const (
	// mostKey bounds a key, and mostKeys all of them: a Secret holds 1 MiB.
	mostKey  = 4 << 10
	mostKeys = 900 << 10
	// sweepInterval is between looks for keys that nobody needs.
	sweepInterval = 5 * time.Minute
)

// Keyring is the Secret from which bridges read all keys: each is named UID.NAMESPACE.KEY.
type Keyring struct {
	client client.Client
	live   client.Reader
	name   types.NamespacedName

	mu sync.Mutex // what a namespace takes is counted and written by one at a time
}

// New returns a Keyring that the manager sweeps on the leader, nil without a name: there are no Doors, and nobody signs.
func New(mgr ctrl.Manager, name types.NamespacedName) (*Keyring, error) {
	if name.Name == "" {
		return nil, nil //nolint:nilnil // its users know
	}
	k := &Keyring{client: mgr.GetClient(), live: mgr.GetAPIReader(), name: name}
	if err := mgr.Add(kube.Repeat(mgr.GetLogger(), "take out the keys that nobody needs", sweepInterval, k.sweep)); err != nil {
		return nil, fmt.Errorf("set up the keyring: %w", err)
	}
	return k, nil
}

// Read reads the keys of a Secret, nil without one.
func (k *Keyring) Read(ctx context.Context, name types.NamespacedName) (*door.Keys, error) {
	secret := &corev1.Secret{}
	if err := k.live.Get(ctx, name, secret); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil //nolint:nilnil // the status says so
		}
		return nil, fmt.Errorf("get Secret %s: %w", name, err)
	}
	return &door.Keys{Current: secret.Data[door.KeyCurrent], Previous: secret.Data[door.KeyPrevious]}, nil
}

// Keep stores the keys of an object's Secret, or says why they are not.
func (k *Keyring) Keep(ctx context.Context, owner client.Object, secret string, keys *door.Keys) (unkept string, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ring := &corev1.Secret{}
	if err := k.live.Get(ctx, k.name, ring); err != nil {
		return "", fmt.Errorf("get Secret %s: %w", k.name, err)
	}
	changes, size := map[string]*[]byte{}, 0
	wanted := map[string][]byte{door.KeyCurrent: nil, door.KeyPrevious: nil}
	if keys != nil {
		wanted[door.KeyCurrent], wanted[door.KeyPrevious] = keys.Current, keys.Previous
	}
	for name, key := range wanted {
		entry := door.KeyName(owner, name)
		stored, known := ring.Data[entry]
		switch {
		case len(key) > mostKey:
			return fmt.Sprintf("key %s of Secret %s has %d bytes, at most %d fit", name, secret, len(key), mostKey), nil
		case len(key) == 0 && known:
			changes[entry] = nil
		case len(key) > 0 && !bytes.Equal(stored, key):
			changes[entry] = &key
			size += len(entry) + len(key)
		}
	}
	if len(changes) == 0 {
		return "", nil
	}
	if own, all := held(ring, owner); own+size > mostKeys-all-size && size > 0 {
		return fmt.Sprintf("the keys of all Doors and Subscriptions take %d of %d bytes, and those of this namespace %d, which may not be more "+
			"than it leaves to others: delete some, or shorten keys", all, mostKeys, own), nil
	}
	return "", k.patch(ctx, changes)
}

// held returns what the keys of a namespace take, besides those of one object, and those of all.
func held(ring *corev1.Secret, owner client.Object) (own, all int) {
	for name, key := range ring.Data {
		all += len(name) + len(key)
		if uid, namespace := door.KeyOwner(name); namespace == owner.GetNamespace() && uid != owner.GetUID() {
			own += len(name) + len(key)
		}
	}
	return own, all
}

// sweep takes out the keys of objects that are gone, or need none.
func (k *Keyring) sweep(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	ring := &corev1.Secret{}
	if err := k.live.Get(ctx, k.name, ring); err != nil {
		return fmt.Errorf("get Secret %s: %w", k.name, err)
	}
	if len(ring.Data) == 0 {
		return nil
	}
	owners, err := k.owners(ctx)
	if err != nil {
		return err
	}
	changes := map[string]*[]byte{}
	for name := range ring.Data {
		if uid, _ := door.KeyOwner(name); !owners[uid] {
			changes[name] = nil
		}
	}
	if len(changes) == 0 {
		return nil
	}
	return k.patch(ctx, changes)
}

// owners returns the objects that need keys. Each that has any was there when the ring was read.
func (k *Keyring) owners(ctx context.Context) (map[types.UID]bool, error) {
	found := map[types.UID]bool{}
	doors := &v1alpha1.DoorList{}
	if err := k.live.List(ctx, doors); err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("list Doors: %w", err)
	}
	for i := range doors.Items {
		found[doors.Items[i].UID] = door.SecretName(&doors.Items[i]) != ""
	}
	subscriptions := &eventingv1alpha2.SubscriptionList{}
	if err := k.client.List(ctx, subscriptions, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Subscriptions: %w", err)
	}
	for i := range subscriptions.Items {
		delivery := subscriptions.Items[i].Spec.Delivery
		found[subscriptions.Items[i].UID] = delivery != nil && delivery.Webhook != nil
	}
	return found, nil
}

// patch changes entries; nil takes one out.
func (k *Keyring) patch(ctx context.Context, changes map[string]*[]byte) error {
	body, err := json.Marshal(map[string]any{"data": changes})
	if err != nil {
		return fmt.Errorf("write Secret %s: %w", k.name, err)
	}
	ring := &corev1.Secret{}
	ring.Namespace, ring.Name = k.name.Namespace, k.name.Name
	if err := k.client.Patch(ctx, ring, client.RawPatch(types.MergePatchType, body)); err != nil {
		return fmt.Errorf("write Secret %s: %w", k.name, scrubbed(err))
	}
	return nil
}

// scrubbed is an error of the API server, which may quote the object.
func scrubbed(err error) error {
	text, _, _ := strings.Cut(err.Error(), ":")
	return fmt.Errorf("%.128s", text)
}
