package kube

import (
	"bytes"
	"sync"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// controllerPlace stands for the UID of an object's controller in what is shared. No JSON has this byte.
	controllerPlace = 1
	// maxSharedBytes bounds the sets that are known to be shared, which tenants bring forth. With more of them all are
	// forgotten. One that is longer than maxSetBytes is kept where it is.
	maxSharedBytes = 4 << 20
	maxSetBytes    = 16 << 10
)

// sharedFields are sets of managed fields that several objects of a cache have. Nothing changes them.
var sharedFields = struct {
	sync.Mutex
	byText map[string]*metav1.FieldsV1
	bytes  int
}{byText: map[string]*metav1.FieldsV1{}}

// Share lets an object of a cache share its managed fields and the texts of its labels with others. They are most of what a cache
// holds of a small object, and with thousands of objects that are applied alike they differ in the UID of the owner alone.
// Afterwards only this package can read managed fields.
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

// ShareTexts lets an object of a cache share with others what many of them say: their namespace and labels.
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

// managedFields are those of an object as the API server has them, also when they are shared.
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
