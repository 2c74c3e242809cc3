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

// FieldOwner is the field owner of everything that the controllers apply, and OperatorFieldOwner of what the operator applies.
const (
	FieldOwner         = client.FieldOwner("rouse-controller")
	OperatorFieldOwner = client.FieldOwner("rouse-operator")
)

// Applier writes objects by server-side apply. It remembers what it applied
// last, and marks the objects with it for the process after it, so that an
// object which is still as it was left costs no request. A cache must keep
// managed fields and AnnotationApplied of what is applied.
// It is safe for concurrent use.
type Applier struct {
	client client.Client
	owner  client.FieldOwner

	mu      sync.Mutex
	applied map[types.NamespacedName][]record // one for each kind
}

// record is what an object looked like after it was applied: a change to a
// field that we own, or its removal, takes the field out of our managed fields.
type record struct {
	kind    string
	uid     types.UID
	desired sum
	owned   sum
}

// sum is a hash. Thousands are remembered, and half of SHA-256 is enough: who finds two texts of one sum has a Function of
// their own that does not follow.
type sum [sha256.Size / 2]byte

func sumOf(text []byte) sum {
	whole := sha256.Sum256(text)
	return sum(whole[:len(sum{})])
}

// NewApplier returns an Applier that writes through c as FieldOwner.
func NewApplier(c client.Client) *Applier { return NewApplierAs(c, FieldOwner) }

// NewApplierAs returns an Applier that writes through c as owner.
func NewApplierAs(c client.Client, owner client.FieldOwner) *Applier {
	return &Applier{client: c, owner: owner, applied: make(map[types.NamespacedName][]record)}
}

// Apply makes the live object what desired says. Live is nil when there is
// none. What others have added by hand to the exclusive parts is removed. The
// result is the object after the write, nil when none was needed.
//
// Fields are taken from other owners only in an object that exists: a caller
// with a live object has checked that it is ours (see CheckOwner).
func (a *Applier) Apply(
	ctx context.Context, desired *unstructured.Unstructured, live metav1.Object, exclusive ...Part,
) (*unstructured.Unstructured, error) {
	marked, hash, err := mark(desired)
	if err != nil {
		return nil, err
	}
	if live == nil {
		return a.write(ctx, marked, hash)
	}
	fields, err := reclaimed(live, a.owner, exclusive)
	if err != nil {
		return nil, err
	}
	if fields == nil && a.upToDate(live, marked, hash) {
		return nil, nil
	}
	if fields != nil {
		if err := a.reclaim(ctx, desired, live, fields); err != nil {
			return nil, err
		}
	}
	marked.SetUID(live.GetUID()) // a precondition: not the object that took its place
	return a.write(ctx, marked, hash, client.ForceOwnership)
}

// write overwrites desired with the object after the write.
func (a *Applier) write(
	ctx context.Context, desired *unstructured.Unstructured, hash sum, options ...client.ApplyOption,
) (*unstructured.Unstructured, error) {
	kind, key := desired.GetKind(), client.ObjectKeyFromObject(desired)
	config := client.ApplyConfigurationFromUnstructured(desired)
	if err := a.client.Apply(ctx, config, append(options, a.owner)...); err != nil {
		return nil, fmt.Errorf("apply %s %q: %w", kind, key, err)
	}
	a.remember(key, record{kind: kind, uid: desired.GetUID(), desired: hash, owned: ownedFields(desired, a.owner)})
	return desired, nil
}

// Forget drops what is remembered of the objects with this key.
func (a *Applier) Forget(key types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.applied, key)
}

// Distrust has the next Apply of an object write, also one that looks as it was left: an admission webhook that takes a field
// out leaves it in our managed fields.
func (a *Applier) Distrust(kind string, key types.NamespacedName) {
	a.remember(key, record{kind: kind})
}

// upToDate reports whether an object is as this process has left it or, when this process has not met it, as an earlier one has.
func (a *Applier) upToDate(live metav1.Object, marked *unstructured.Unstructured, desired sum) bool {
	key := client.ObjectKeyFromObject(marked)
	seen := record{kind: marked.GetKind(), uid: live.GetUID(), desired: desired, owned: ownedFields(live, a.owner)}
	if last, ok := a.last(key, seen.kind); ok {
		return last == seen
	}
	if !isIntact(live, marked, a.owner) {
		return false
	}
	a.remember(key, seen)
	return true
}

func (a *Applier) last(key types.NamespacedName, kind string) (record, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, known := range a.applied[key] {
		if known.kind == kind {
			return known, true
		}
	}
	return record{}, false
}

func (a *Applier) remember(key types.NamespacedName, r record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := a.applied[key]
	for i := range known {
		if known[i].kind == r.kind {
			known[i] = r
			return
		}
	}
	a.applied[key] = append(known, r)
}

// ownedFields is a fingerprint of the fields that owner has by apply.
func ownedFields(object metav1.Object, owner client.FieldOwner) sum {
	entry := appliedEntry(managedFields(object), owner)
	if entry == nil || entry.FieldsV1 == nil {
		return sum{}
	}
	// The same set comes in different key order from a watch and from an answer.
	raw := entry.FieldsV1.GetRawBytes()
	var set any
	if err := json.Unmarshal(raw, &set); err != nil {
		return sumOf(raw)
	}
	sorted, err := json.Marshal(set)
	if err != nil {
		return sumOf(raw)
	}
	return sumOf(sorted)
}

// IsApplied reports whether FieldOwner has applied anything to the object.
func IsApplied(object metav1.Object) bool { return IsAppliedBy(object, FieldOwner) }

// IsAppliedBy reports whether owner has applied anything to the object.
func IsAppliedBy(object metav1.Object, owner client.FieldOwner) bool {
	return appliedEntry(object.GetManagedFields(), owner) != nil
}

func appliedEntry(entries []metav1.ManagedFieldsEntry, owner client.FieldOwner) *metav1.ManagedFieldsEntry {
	for i := range entries {
		if isApplied(&entries[i], owner) {
			return &entries[i]
		}
	}
	return nil
}

func isApplied(entry *metav1.ManagedFieldsEntry, owner client.FieldOwner) bool {
	return entry.Manager == string(owner) && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
}

// ToUnstructured turns an apply configuration into the form that Apply takes.
func ToUnstructured(config any) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
	if err != nil {
		return nil, fmt.Errorf("convert %T: %w", config, err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}
