package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// FieldOwner is the field owner of all objects that the controllers apply, and OperatorFieldOwner of those that the
// operator applies.
const (
	FieldOwner         = client.FieldOwner("rouse-controller")
	OperatorFieldOwner = client.FieldOwner("rouse-operator")
)

// Applier writes objects by server-side apply. It remembers what it applied last, and marks objects with a hash for
// later processes, so that an unchanged object costs no request. A cache must keep managed fields and AnnotationApplied
// of applied objects. It is safe for concurrent use.
type Applier struct {
	client client.Client
	owner  client.FieldOwner

	mu      sync.Mutex
	applied map[types.NamespacedName][]record // one for each kind
}

// record is the state of an object after it was applied: a change to a field that we own, or its removal, removes the
// field from our managed fields.
type record struct {
	kind    string
	uid     types.UID
	desired sum
	owned   sum
}

// sum is a hash. Thousands are remembered, and half of SHA-256 suffices: a tenant that finds a collision affects only
// their own Function.
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

// Apply makes the live object match desired. Live is nil when it does not exist. Fields that other clients have added
// by hand to the exclusive parts are removed. The result is the object after the write, nil when no write was needed.
//
// Fields are taken from other owners only in an existing object: a caller with a live object has checked its owner (see
// CheckOwner).
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
	marked.SetUID(live.GetUID()) // a precondition: not an object that replaced it
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

// Forget drops the records of all objects with this key.
func (a *Applier) Forget(key types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.applied, key)
}

// Distrust forces the next Apply of an object to write, even if it looks unchanged: an admission webhook that removes a
// field leaves it in our managed fields.
func (a *Applier) Distrust(kind string, key types.NamespacedName) {
	a.remember(key, record{kind: kind})
}

// upToDate reports whether an object is as this process has left it or, if this process has not applied it, as an
// earlier process has.
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

// ownedFields returns a hash of the fields that owner has applied.
func ownedFields(object metav1.Object, owner client.FieldOwner) sum {
	entry := appliedEntry(managedFields(object), owner)
	if entry == nil || entry.FieldsV1 == nil {
		return sum{}
	}
	// Watches and responses return the same set with keys in different orders.
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

// ToUnstructured converts an apply configuration to the form that Apply accepts.
func ToUnstructured(config any) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(config)
	if err != nil {
		return nil, fmt.Errorf("convert %T: %w", config, err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// AnnotationApplied is on all objects that an Applier writes. It is a hash of the applied configuration, by which a
// process recognizes the objects of an earlier one. A client that changes it becomes its owner, and the object is
// applied again.
const AnnotationApplied = "rouse.run/applied"

// mark returns a copy of the desired object with the annotation, and its hash.
func mark(desired *unstructured.Unstructured) (*unstructured.Unstructured, sum, error) {
	content, err := json.Marshal(desired.Object)
	if err != nil {
		return nil, sum{}, fmt.Errorf("encode %s %s: %w", desired.GetKind(), desired.GetName(), err)
	}
	hash := sumOf(content)
	marked := desired.DeepCopy()
	annotations := maps.Clone(marked.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[AnnotationApplied] = hex.EncodeToString(hash[:])
	marked.SetAnnotations(annotations)
	return marked, hash, nil
}

// OnlyMark returns the annotations of an object that a cache has to hold.
func OnlyMark(annotations map[string]string) map[string]string {
	if value, marked := annotations[AnnotationApplied]; marked {
		return map[string]string{AnnotationApplied: value}
	}
	return nil
}

// isIntact reports whether owner applied the desired state to an object, and no other client has changed any of it
// since. A client that changes or removes a field takes it from its owner's managed fields, so they have to equal the
// desired fields: a missing one was changed, and an additional one is left over from an apply that did not succeed.
func isIntact(live metav1.Object, marked *unstructured.Unstructured, owner client.FieldOwner) bool {
	if live.GetAnnotations()[AnnotationApplied] != marked.GetAnnotations()[AnnotationApplied] {
		return false
	}
	entry := appliedEntry(managedFields(live), owner)
	if entry == nil || entry.FieldsV1 == nil || entry.APIVersion != marked.GetAPIVersion() {
		return false
	}
	var owned map[string]any
	if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &owned); err != nil {
		return false
	}
	fields, err := fieldsOf(marked)
	return err == nil && coincide(owned, fields)
}

// fieldsOf returns an object as JSON values, without the fields that managed fields leave out.
func fieldsOf(object *unstructured.Unstructured) (map[string]any, error) {
	content, err := json.Marshal(object.Object)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(content, &fields); err != nil {
		return nil, err
	}
	delete(fields, "apiVersion")
	delete(fields, "kind")
	if metadata, ok := fields["metadata"].(map[string]any); ok {
		for _, name := range []string{"name", "namespace", "uid"} {
			delete(metadata, name)
		}
	}
	return fields, nil
}

// coincide reports whether a set of owned fields matches a value. An empty set stands for the whole value.
func coincide(owned map[string]any, value any) bool {
	if len(owned) == 0 {
		return true
	}
	children := len(owned)
	if _, itself := owned["."]; itself {
		children--
	}
	switch typed := value.(type) {
	case map[string]any:
		if children != len(typed) {
			return false
		}
		for name, each := range typed {
			if !ownsChild(owned, "f:"+name, each) {
				return false
			}
		}
		return true
	case []any:
		return children == len(typed) && coincideItems(owned, typed)
	default:
		return false // a scalar has no parts
	}
}

func ownsChild(owned map[string]any, name string, value any) bool {
	child, ok := owned[name].(map[string]any)
	return ok && coincide(child, value)
}

// coincideItems is coincide for a list whose items have keys, or are keys. Each item needs a set of its own.
func coincideItems(owned map[string]any, items []any) bool {
	found := make([]bool, len(items))
	for name, set := range owned {
		if name == "." {
			continue
		}
		child, _ := set.(map[string]any)
		position := -1
		for i, item := range items {
			if !found[i] && isNamed(name, item) {
				position = i
				break
			}
		}
		if child == nil || position < 0 || !coincide(child, items[position]) {
			return false
		}
		found[position] = true
	}
	return true
}

// isNamed reports whether a name in managed fields identifies an item of a list: by its value, or by its keys, which
// may be defaults.
func isNamed(name string, item any) bool {
	if text, byValue := strings.CutPrefix(name, "v:"); byValue {
		var value any
		return json.Unmarshal([]byte(text), &value) == nil && reflect.DeepEqual(value, item)
	}
	text, byKeys := strings.CutPrefix(name, "k:")
	fields, isMap := item.(map[string]any)
	if !byKeys || !isMap {
		return false
	}
	var keys map[string]any
	if err := json.Unmarshal([]byte(text), &keys); err != nil {
		return false
	}
	for key, value := range keys {
		if own, given := fields[key]; given && !reflect.DeepEqual(own, value) {
			return false
		}
	}
	return len(keys) > 0
}
