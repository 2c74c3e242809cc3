package kube

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Part is a part of an object that its owner keeps as it applied it.
type Part interface {
	// contains reports whether path lies in the part.
	contains(path fieldpath.Path) bool
	// tolerates reports whether what another owner added at path stays.
	tolerates(path fieldpath.Path) bool
}

// Exclusive names a part of an object in which no other owner may add anything,
// for example spec, template, spec.
type Exclusive []string

// Tolerating is the part without the additions for which stays returns true.
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

// reclaimed are the managed fields of object with everything that was added by
// hand to the exclusive parts, and is not tolerated there, given to owner, whose
// next apply will then remove it. It is nil when nothing was added.
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

// split takes the fields of the exclusive parts out of an entry. The rest is
// nil when nothing is left of it. Subresources are not touched: scaling
// and status updates add nothing by hand.
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

// notTolerated are the fields in the exclusive parts that do not stay. What holds one that stays, as a list does, is not among
// them: its removal would take all in it.
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

// reclaim writes the managed fields, unless the object has changed meanwhile.
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
