package migrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	v2 "github.com/rouse-run/rouse/api/gateway/v2"
)

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

// object is what decides on whether a document is converted, and how it is called.
type object struct {
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
func read(document []byte) (*object, error) {
	content, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, fmt.Errorf("is no YAML: %w", err)
	}
	if string(content) == "null" {
		return nil, nil
	}
	o := &object{}
	if err := json.Unmarshal(content, o); err != nil {
		return nil, fmt.Errorf("is no Kubernetes object: %w", err)
	}
	return o, nil
}

// isList reports whether the object is one of those that kubectl get prints for several.
func (o *object) isList() bool { return strings.HasSuffix(o.Kind, "List") && o.Items != nil }

// isOld reports whether the object is an APIRule that has to be converted: of an old version, or of a later one in which only an
// annotation has the spec.
func (o *object) isOld() bool {
	group, version, _ := strings.Cut(o.APIVersion, "/")
	if group != v2.GroupVersion.Group || o.Kind != "APIRule" {
		return false
	}
	return version == "v1beta1" || version == "v1alpha1" || o.keepsOldSpec() && len(o.Spec) == 0
}

// keepsOldSpec reports whether the object was written as v1beta1, and an annotation has that spec.
func (o *object) keepsOldSpec() bool {
	return o.Metadata.Annotations[v2.AnnotationOriginalVersion] == "v1beta1" && o.Metadata.Annotations[v2.AnnotationV1beta1Spec] != ""
}

// name is what the object is called in messages.
func (o *object) name() string {
	if o.Metadata.Namespace == "" {
		return o.Kind + " " + o.Metadata.Name
	}
	return o.Kind + " " + o.Metadata.Namespace + "/" + o.Metadata.Name
}
