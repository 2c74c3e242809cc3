package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

const (
	// controllerPlace replaces the UID of an object's controller in shared sets. No JSON contains this byte.
	controllerPlace = 1
	// maxSharedBytes bounds the shared sets, which tenants can create. When it is exceeded, all are forgotten. A set
	// longer than maxSetBytes is not shared.
	maxSharedBytes = 4 << 20
	maxSetBytes    = 16 << 10
)

// sharedFields are sets of managed fields that several objects of a cache share. They are immutable.
var sharedFields = struct {
	sync.Mutex
	byText map[string]*metav1.FieldsV1
	bytes  int
}{byText: map[string]*metav1.FieldsV1{}}

// Share lets an object of a cache share its managed fields and the texts of its labels with others. They are the
// largest part of a small object in a cache, and with thousands of objects that are applied alike they differ only in
// the UID of the owner. Afterwards only this package can read managed fields.
func Share(object metav1.Object) {
	ShareTexts(object)
	controller := controllerUID(object)
	entries := object.GetManagedFields()
	for i := range entries {
		entry := &entries[i]
		entry.Manager, entry.APIVersion = unique.Make(entry.Manager).Value(), unique.Make(entry.APIVersion).Value()
		if entry.FieldsV1 == nil {
			continue
		}
		raw := entry.FieldsV1.GetRawBytes()
		if len(controller) > 0 {
			raw = bytes.ReplaceAll(raw, controller, []byte{controllerPlace})
		}
		entry.FieldsV1 = shared(raw)
	}
	object.SetManagedFields(entries)
}

// ShareTexts lets the objects of a cache share equal texts: their namespace and labels.
func ShareTexts(object metav1.Object) {
	object.SetNamespace(unique.Make(object.GetNamespace()).Value())
	object.SetLabels(sharedTexts(object.GetLabels()))
}

// ShareText lets a field of an object of a cache share its text.
func ShareText[T ~string](text *T) { *text = unique.Make(*text).Value() }

func sharedTexts(of map[string]string) map[string]string {
	if len(of) == 0 {
		return nil
	}
	shared := make(map[string]string, len(of))
	for name, value := range of {
		shared[unique.Make(name).Value()] = unique.Make(value).Value()
	}
	return shared
}

func shared(raw []byte) *metav1.FieldsV1 {
	sharedFields.Lock()
	defer sharedFields.Unlock()
	if known := sharedFields.byText[string(raw)]; known != nil {
		return known
	}
	text := string(raw)
	fields := metav1.NewFieldsV1(text)
	if len(raw) > maxSetBytes {
		return fields
	}
	if sharedFields.bytes += len(raw); sharedFields.bytes > maxSharedBytes {
		clear(sharedFields.byText)
		sharedFields.bytes = len(raw)
	}
	sharedFields.byText[text] = fields
	return fields
}

// managedFields returns the managed fields of an object as the API server returned them, even if they are shared.
func managedFields(object metav1.Object) []metav1.ManagedFieldsEntry {
	controller := controllerUID(object)
	entries := object.GetManagedFields()
	if len(controller) == 0 {
		return entries
	}
	whole := make([]metav1.ManagedFieldsEntry, len(entries))
	for i, entry := range entries {
		if entry.FieldsV1 != nil {
			raw := bytes.ReplaceAll(entry.FieldsV1.GetRawBytes(), []byte{controllerPlace}, controller)
			entry.FieldsV1 = metav1.NewFieldsV1(string(raw))
		}
		whole[i] = entry
	}
	return whole
}

func controllerUID(object metav1.Object) []byte {
	if controller := metav1.GetControllerOfNoCopy(object); controller != nil {
		return []byte(controller.UID)
	}
	return nil
}

// Part is a part of an object that must remain as its owner applied it.
type Part interface {
	// contains reports whether path lies in the part.
	contains(path fieldpath.Path) bool
	// tolerates reports whether a field that another owner added at path is kept.
	tolerates(path fieldpath.Path) bool
}

// Exclusive is the path of a part of an object in which no other owner may add fields, for example spec, template,
// spec.
type Exclusive []string

// Tolerating returns a part that keeps the additions for which stays returns true.
func (e Exclusive) Tolerating(stays func(fieldpath.Path) bool) Part {
	return tolerant{Exclusive: e, stays: stays}
}

type tolerant struct {
	Exclusive
	stays func(fieldpath.Path) bool
}

func (t tolerant) tolerates(path fieldpath.Path) bool { return t.stays(path) }

func (e Exclusive) tolerates(fieldpath.Path) bool { return false }

// contains reports whether path lies in the part.
func (e Exclusive) contains(path fieldpath.Path) bool {
	if len(path) <= len(e) {
		return false
	}
	for i, name := range e {
		if path[i].FieldName == nil || *path[i].FieldName != name {
			return false
		}
	}
	return true
}

// reclaimed returns the managed fields of object after moving the fields that were added by hand to the exclusive
// parts, and are not tolerated there, to owner, whose next apply then removes them. It returns nil when no fields were
// added.
func reclaimed(object metav1.Object, owner client.FieldOwner, exclusive []Part) ([]metav1.ManagedFieldsEntry, error) {
	entries := managedFields(object)
	own := appliedEntry(entries, owner)
	if own == nil || len(exclusive) == 0 {
		return nil, nil
	}
	added := &fieldpath.Set{}
	var others []metav1.ManagedFieldsEntry
	for _, entry := range entries {
		if isApplied(&entry, owner) {
			continue
		}
		taken, rest, err := split(&entry, owner, exclusive)
		if err != nil {
			return nil, err
		}
		added = added.Union(taken)
		if rest != nil {
			others = append(others, *rest)
		}
	}
	if added.Empty() {
		return nil, nil
	}
	mine, err := decode(own)
	if err != nil {
		return nil, err
	}
	claim, err := encode(own, mine.Union(added))
	return append(others, claim), err
}

// split removes the fields of the exclusive parts from an entry. The rest is nil when it would be empty. Entries of
// subresources are kept: scaling and status updates add no fields by hand.
func split(
	entry *metav1.ManagedFieldsEntry, owner client.FieldOwner, exclusive []Part,
) (*fieldpath.Set, *metav1.ManagedFieldsEntry, error) {
	taken := fieldpath.NewSet()
	if entry.Operation != metav1.ManagedFieldsOperationUpdate || entry.Subresource != "" ||
		entry.Manager == string(owner) || entry.FieldsV1 == nil {
		return taken, entry, nil
	}
	fields, err := decode(entry)
	if err != nil {
		return nil, nil, err
	}
	taken = notTolerated(fields, exclusive)
	rest := fields.Difference(taken)
	if taken.Empty() || rest.Empty() {
		if rest.Empty() {
			return taken, nil, nil
		}
		return taken, entry, nil
	}
	kept, err := encode(entry, rest)
	return taken, &kept, err
}

// notTolerated returns the fields in the exclusive parts that are not kept. It omits containers of kept fields, such as
// lists: removing a container would remove all its fields.
func notTolerated(fields *fieldpath.Set, exclusive []Part) *fieldpath.Set {
	found, holders := fieldpath.NewSet(), fieldpath.NewSet()
	fields.Iterate(func(path fieldpath.Path) {
		for _, part := range exclusive {
			switch {
			case !part.contains(path):
			case part.tolerates(path):
				for i := 1; i < len(path); i++ {
					holders.Insert(path[:i].Copy())
				}
			default:
				found.Insert(path.Copy())
			}
		}
	})
	return found.Difference(holders)
}

func decode(entry *metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	set := &fieldpath.Set{}
	if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return nil, fmt.Errorf("decode managed fields of %q: %w", entry.Manager, err)
	}
	return set, nil
}

func encode(entry *metav1.ManagedFieldsEntry, set *fieldpath.Set) (metav1.ManagedFieldsEntry, error) {
	raw, err := set.ToJSON()
	if err != nil {
		return metav1.ManagedFieldsEntry{}, fmt.Errorf("encode managed fields of %q: %w", entry.Manager, err)
	}
	changed := *entry
	changed.FieldsV1 = metav1.NewFieldsV1(string(raw))
	return changed, nil
}

// reclaim writes the managed fields, unless the object has changed in the meantime.
func (a *Applier) reclaim(ctx context.Context, desired *unstructured.Unstructured, live metav1.Object, fields []metav1.ManagedFieldsEntry) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": live.GetUID(), "resourceVersion": live.GetResourceVersion(), "managedFields": fields,
	}})
	if err != nil {
		return fmt.Errorf("encode managed fields: %w", err)
	}
	target := &metav1.PartialObjectMetadata{}
	target.SetGroupVersionKind(desired.GroupVersionKind())
	target.SetNamespace(desired.GetNamespace())
	target.SetName(desired.GetName())
	if err := a.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("reclaim the fields of %s %q: %w", desired.GetKind(), desired.GetName(), err)
	}
	return nil
}
