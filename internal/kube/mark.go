package kube

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AnnotationApplied is on everything that an Applier writes: a hash of what was applied, by which a process knows what an
// earlier one has left. Whoever else writes it takes it away from its owner, and the object is applied again.
const AnnotationApplied = "rouse.run/applied"

// mark returns a copy of what is desired with the annotation, and its hash.
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

// OnlyMark is what a cache has to keep of the annotations of an object.
func OnlyMark(annotations map[string]string) map[string]string {
	if value, marked := annotations[AnnotationApplied]; marked {
		return map[string]string{AnnotationApplied: value}
	}
	return nil
}

// isIntact reports whether owner applied to an object what is desired, and nobody has changed any of it since. Whoever
// changes or removes a field takes it from its owner's managed fields, so they have to be those of what is desired: no
// field less, and none more, which an apply that did not come about would have removed.
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

// fieldsOf is an object as JSON has it, without what managed fields leave out.
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

// coincide reports whether a set of owned fields is that of a value. An empty set stands for all of it.
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
		return false // it has no parts
	}
}

func ownsChild(owned map[string]any, name string, value any) bool {
	child, ok := owned[name].(map[string]any)
	return ok && coincide(child, value)
}

// coincideItems is coincide for a list whose items have keys, or are them. Each item has to have a set of its own.
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

// isNamed reports whether managed fields call an item of a list so: by its value, or by the keys of it, which may be defaults.
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
