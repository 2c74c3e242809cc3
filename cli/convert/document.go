package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Document is one object of a file, or a list of which nothing concerns the reader.
type Document struct {
	Object *Object
	Text   []byte
	// Where is its place in the file, for messages.
	Where string
	// Objects is how many there are: more than one only in a list.
	Objects int
}

// Documents reads the objects of a file. A list is taken apart when one of its objects concerns the reader. name is that of the file in
// messages; an error says that the file cannot be read as manifests.
func Documents(name string, content []byte, concerns func(*Object) bool) ([]Document, error) {
	var found []Document
	for i, text := range split(content) {
		where := fmt.Sprintf("document %d", i+1)
		o, err := read(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %s %w", name, where, err)
		}
		switch {
		case o == nil:
		case o.isList():
			items, err := itemsOf(o, text, where, concerns)
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

func itemsOf(list *Object, text []byte, where string, concerns func(*Object) bool) ([]Document, error) {
	found, concerned := make([]Document, len(list.Items)), false
	for i, item := range list.Items {
		at := fmt.Sprintf("%s: item %d of the list", where, i)
		o, err := read(item)
		if err != nil || o == nil {
			return nil, fmt.Errorf("%s is no object", at)
		}
		found[i] = Document{Object: o, Where: at, Objects: 1}
		concerned = concerned || concerns(o)
	}
	if !concerned {
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

// Append adds a document to a file.
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

// split cuts a file into its documents. A line that begins with "---" separates them.
func split(content []byte) [][]byte {
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

// Object is what decides on whether a document is converted, and how it is called.
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

// read decodes one document. It is nil when there is no object in it.
func read(document []byte) (*Object, error) {
	content, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, fmt.Errorf("is no YAML: %w", err)
	}
	if string(content) == "null" {
		return nil, nil
	}
	o := &Object{}
	if err := json.Unmarshal(content, o); err != nil {
		return nil, fmt.Errorf("is no Kubernetes object: %w", err)
	}
	return o, nil
}

// isList reports whether the object is one of those that kubectl get prints for several.
func (o *Object) isList() bool { return strings.HasSuffix(o.Kind, "List") && o.Items != nil }

// FullName is what the object is called in messages.
func (o *Object) FullName() string {
	if o.Metadata.Namespace == "" {
		return o.Kind + " " + o.Metadata.Name
	}
	return o.Kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name
}
