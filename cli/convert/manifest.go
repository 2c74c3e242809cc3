package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Document is one object of a file, or a list without an object to convert.
type Document struct {
	Object *Object
	Text   []byte
	// Where is the position in the file, for messages.
	Where string
	// Objects is the number of objects: more than one only in a list.
	Objects int
}

// Documents returns the objects of a file. A list is split when old selects one of its objects. It fails when the file does not contain
// manifests; name is the name of the file in the error.
func Documents(name string, content []byte, old func(*Object) bool) ([]Document, error) {
	var found []Document
	for i, text := range documentsOf(content) {
		where := fmt.Sprintf("document %d", i+1)
		o, err := parse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %s %w", name, where, err)
		}
		switch {
		case o == nil:
		case o.isList():
			items, err := itemsOf(o, text, where, old)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			found = append(found, items...)
		default:
			found = append(found, Document{o, text, where, 1})
		}
	}
	return found, nil
}

func itemsOf(list *Object, text []byte, where string, old func(*Object) bool) ([]Document, error) {
	found, split := make([]Document, len(list.Items)), false
	for i, item := range list.Items {
		at := fmt.Sprintf("%s: item %d of the list", where, i)
		o, err := parse(item)
		if err != nil || o == nil {
			return nil, fmt.Errorf("%s is not an object", at)
		}
		found[i] = Document{Object: o, Where: at, Objects: 1}
		split = split || old(o)
	}
	if !split {
		return []Document{{list, text, where, len(list.Items)}}, nil
	}
	for i, item := range list.Items {
		written, err := yaml.JSONToYAML(item)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", found[i].Where, err)
		}
		found[i].Text = written
	}
	return found, nil
}

// Append appends a document to a file.
func Append(file, document []byte) []byte {
	if len(file) > 0 {
		file = append(file, "---\n"...)
	}
	file = append(file, document...)
	if !bytes.HasSuffix(document, []byte("\n")) {
		file = append(file, '\n')
	}
	return file
}

// documentsOf splits a file into its documents, which lines that begin with "---" separate.
func documentsOf(content []byte) [][]byte {
	var documents [][]byte
	var document []byte
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	for line := range bytes.Lines(content) {
		rest, found := bytes.CutPrefix(line, []byte("---"))
		if !found || len(rest) > 0 && !bytes.ContainsAny(rest[:1], " \t\r\n") {
			document = append(document, line...)
			continue
		}
		documents = append(documents, document)
		document = nil
		if text := bytes.TrimLeft(rest, " \t"); len(bytes.TrimSpace(text)) > 0 {
			document = bytes.Clone(text)
		}
	}
	return append(documents, document)
}

// Object holds the fields that decide whether an object is converted, and its name.
type Object struct {
	metav1.TypeMeta `json:",inline"`

	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec  map[string]json.RawMessage `json:"spec"`
	Items []json.RawMessage          `json:"items"`
}

// parse decodes one document. It returns nil when the document is empty.
func parse(document []byte) (*Object, error) {
	content, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, fmt.Errorf("is not valid YAML: %w", err)
	}
	if string(content) == "null" {
		return nil, nil
	}
	o := &Object{}
	if err := json.Unmarshal(content, o); err != nil {
		return nil, fmt.Errorf("is not a Kubernetes object: %w", err)
	}
	return o, nil
}

// isList reports whether the object is a list, as kubectl get prints several objects.
func (o *Object) isList() bool { return strings.HasSuffix(o.Kind, "List") && o.Items != nil }

// FullName returns the kind, namespace and name of the object for messages.
func (o *Object) FullName() string {
	if o.Metadata.Namespace == "" {
		return o.Kind + " " + o.Metadata.Name
	}
	return o.Kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name
}

// manifest returns an object, as a map and as YAML, without the fields that a cluster sets.
func manifest(object any) (content map[string]any, text []byte, err error) {
	if content, err = runtime.DefaultUnstructuredConverter.ToUnstructured(object); err != nil {
		return nil, nil, err
	}
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	text, err = yaml.Marshal(content)
	return content, text, err
}
