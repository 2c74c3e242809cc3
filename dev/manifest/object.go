package manifest

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// DefaultNamespace is that of objects that name none, as with kubectl.
const DefaultNamespace = "default"

// object is one object of the folder.
type object struct {
	unstructured.Unstructured
	// doc is where it stands, and path the field of the document that has it: empty, or an item of a List.
	doc  *document
	path string
	// files are where a text of it may come from that does not stand in doc.
	files map[string][]byte
}

// objects are those of a document: one, or the items of a List.
func (d *document) objects() []object {
	items, ok := d.value["items"].([]any)
	if kind, _ := d.value["kind"].(string); !ok || !strings.HasSuffix(kind, "List") {
		return []object{{Unstructured: unstructured.Unstructured{Object: d.value}, doc: d}}
	}
	var found []object
	for i, item := range items {
		if value, ok := item.(map[string]any); ok {
			found = append(found, object{Unstructured: unstructured.Unstructured{Object: value}, doc: d, path: index("items", i)})
		}
	}
	return found
}

func (o *object) within(path string) string {
	if o.path == "" {
		return path
	}
	return o.path + "." + path
}

// problem is one about a field of the object.
func (o *object) problem(path, message, remedy string) Problem {
	return Problem{Position: o.doc.at(o.within(path)), Object: describe(o.Object), Message: message, Remedy: remedy}
}

// position is where the object begins.
func (o *object) position() Position {
	if o.path == "" {
		return o.doc.position(o.doc.root)
	}
	return o.doc.at(o.path)
}

// source finds the file and the first line of a text of the object.
func (o *object) source(path, text string) Position {
	if at := o.doc.lines(o.within(path), text); at.File != "" {
		return at
	}
	for file, content := range o.files {
		if text != "" && string(content) == text {
			return Position{File: file, Line: 1}
		}
	}
	return Position{}
}

// describe names an object: "Function orders/pricing".
func describe(value map[string]any) string {
	kind, _, _ := unstructured.NestedString(value, "kind")
	name, _, _ := unstructured.NestedString(value, "metadata", "name")
	namespace, _, _ := unstructured.NestedString(value, "metadata", "namespace")
	if namespace == "" {
		namespace = DefaultNamespace
	}
	if name == "" {
		return kind
	}
	return kind + " " + namespace + "/" + name
}
