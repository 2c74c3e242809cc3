package kube

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldOwner is the field owner of everything that the controllers apply.
const FieldOwner = client.FieldOwner("rouse-controller")

// Applier writes objects by server-side apply. It remembers what it applied
// last, so that an object which is still as it was left costs no request.
// It is safe for concurrent use.
type Applier struct {
	client client.Client

	mu      sync.Mutex
	applied map[objectRef]record
}

type objectRef struct {
	kind string
	key  types.NamespacedName
}

// record is what an object looked like after it was applied: a change to a
// field that we own, or its removal, takes the field out of our managed fields.
type record struct {
	uid     types.UID
	desired [sha256.Size]byte
	owned   [sha256.Size]byte
}

// NewApplier returns an Applier that writes through c.
func NewApplier(c client.Client) *Applier {
	return &Applier{client: c, applied: make(map[objectRef]record)}
}

// Apply makes the live object what desired says. Live is nil when there is
// none. What others have added by hand to the exclusive parts is removed. The
// result is the object after the write, nil when none was needed.
//
// Fields are taken from other owners only in an object that exists: a caller
// with a live object has checked that it is ours (see CheckOwner).
func (a *Applier) Apply(
	ctx context.Context, desired *unstructured.Unstructured, live metav1.Object, exclusive ...Exclusive,
) (*unstructured.Unstructured, error) {
	ref := refOf(desired)
	content, err := json.Marshal(desired.Object)
	if err != nil {
		return nil, fmt.Errorf("encode %s %q: %w", ref.kind, ref.key, err)
	}
	hash := sha256.Sum256(content)
	if live == nil {
		return a.write(ctx, desired, hash)
	}
	fields, err := reclaimed(live, exclusive)
	if err != nil {
		return nil, err
	}
	if fields == nil && a.upToDate(ref, live, hash) {
		return nil, nil
	}
	if fields != nil {
		if err := a.reclaim(ctx, desired, live, fields); err != nil {
			return nil, err
		}
	}
	precise := desired.DeepCopy()
	precise.SetUID(live.GetUID()) // a precondition: not the object that took its place
	return a.write(ctx, precise, hash, client.ForceOwnership)
}

func (a *Applier) write(
	ctx context.Context, desired *unstructured.Unstructured, hash [sha256.Size]byte, options ...client.ApplyOption,
) (*unstructured.Unstructured, error) {
	ref, result := refOf(desired), desired.DeepCopy()
	config := client.ApplyConfigurationFromUnstructured(result)
	if err := a.client.Apply(ctx, config, append(options, FieldOwner)...); err != nil {
		return nil, fmt.Errorf("apply %s %q: %w", ref.kind, ref.key, err)
	}
	a.remember(ref, record{uid: result.GetUID(), desired: hash, owned: ownedFields(result)})
	return result, nil
}

// Forget drops what is remembered of the objects with this key.
func (a *Applier) Forget(key types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for ref := range a.applied {
		if ref.key == key {
			delete(a.applied, ref)
		}
	}
}

func (a *Applier) upToDate(ref objectRef, live metav1.Object, desired [sha256.Size]byte) bool {
	a.mu.Lock()
	last, ok := a.applied[ref]
	a.mu.Unlock()
	return ok && last == record{uid: live.GetUID(), desired: desired, owned: ownedFields(live)}
}

func (a *Applier) remember(ref objectRef, r record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.applied[ref] = r
}

func refOf(object *unstructured.Unstructured) objectRef {
	return objectRef{
		kind: object.GetKind(),
		key:  types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()},
	}
}

// ownedFields is a fingerprint of the fields that FieldOwner owns by apply.
func ownedFields(object metav1.Object) [sha256.Size]byte {
	entry := appliedEntry(object.GetManagedFields())
	if entry == nil || entry.FieldsV1 == nil {
		return [sha256.Size]byte{}
	}
	// The same set comes in different key order from a watch and from an answer.
	raw := entry.FieldsV1.GetRawBytes()
	var set any
	if err := json.Unmarshal(raw, &set); err != nil {
		return sha256.Sum256(raw)
	}
	sorted, err := json.Marshal(set)
	if err != nil {
		return sha256.Sum256(raw)
	}
	return sha256.Sum256(sorted)
}

// IsApplied reports whether FieldOwner has applied anything to the object.
func IsApplied(object metav1.Object) bool {
	return appliedEntry(object.GetManagedFields()) != nil
}

func appliedEntry(entries []metav1.ManagedFieldsEntry) *metav1.ManagedFieldsEntry {
	for i := range entries {
		if isApplied(&entries[i]) {
			return &entries[i]
		}
	}
	return nil
}

func isApplied(entry *metav1.ManagedFieldsEntry) bool {
	return entry.Manager == string(FieldOwner) && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
}

// ToUnstructured turns an apply configuration into the form that Apply takes.
func ToUnstructured(config any) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
	if err != nil {
		return nil, fmt.Errorf("convert %T: %w", config, err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}
