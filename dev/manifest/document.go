package manifest

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	kyaml "sigs.k8s.io/yaml"
)

// document is a YAML document of a file.
type document struct {
	file string
	root *yaml.Node
	// before is the number of lines of the file above the document.
	before int
	// value is the object as kubectl decodes it.
	value map[string]any
}

// parse returns the documents of a file. A document that is not valid YAML does not hide the others.
func parse(file string, content []byte) ([]document, []Problem) {
	var found []document
	var problems []Problem
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf"))
	for before, text := range split(content) {
		doc, problem := parseOne(file, before, text)
		switch {
		case problem != nil:
			problems = append(problems, *problem)
		case doc != nil:
			found = append(found, *doc)
			problems = append(problems, doc.duplicates()...)
		}
	}
	return found, problems
}

// split yields each document with the number of lines above it. Every line that begins with "---" separates documents.
func split(content []byte) func(yield func(int, []byte) bool) {
	return func(yield func(int, []byte) bool) {
		var text []byte
		begin, line := 0, 0
		for next := range bytes.Lines(content) {
			if rest, ok := bytes.CutPrefix(next, []byte("---")); ok && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n")) {
				if !yield(begin, text) {
					return
				}
				text, begin = bytes.Clone(rest), line
			} else {
				text = append(text, next...)
			}
			line++
		}
		yield(begin, text)
	}
}

func parseOne(file string, before int, text []byte) (*document, *Problem) {
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		return nil, unreadable(file, before, err)
	}
	if node.Kind == 0 || len(node.Content) == 0 || node.Content[0].Tag == "!!null" {
		return nil, nil // empty, or only comments
	}
	doc := &document{file: file, root: node.Content[0], before: before}
	if doc.root.Kind != yaml.MappingNode {
		return nil, &Problem{
			Position: doc.position(doc.root), Message: "is not an object: it has no fields",
			Remedy: "a Kubernetes object begins with apiVersion and kind",
		}
	}
	content, err := kyaml.YAMLToJSON(text)
	if err == nil {
		err = json.Unmarshal(content, &doc.value)
	}
	if err != nil {
		return nil, unreadable(file, before, err)
	}
	return doc, nil
}

var lineOfError = regexp.MustCompile(`line (\d+): `)

// unreadable returns a parser's error with the line in the file instead of the document.
func unreadable(file string, before int, err error) *Problem {
	text := strings.TrimPrefix(err.Error(), "error converting YAML to JSON: ")
	text = strings.TrimPrefix(text, "yaml: ")
	problem := &Problem{Position: Position{File: file, Line: before + 1}, Message: "is no YAML: " + text}
	if match := lineOfError.FindStringSubmatch(text); match != nil {
		if line, err := strconv.Atoi(match[1]); err == nil {
			problem.Line = before + line
			problem.Message = "is no YAML: " + strings.Replace(text, match[0], "", 1)
		}
	}
	if strings.Contains(text, "found character that cannot start any token") {
		problem.Remedy = "indent with spaces, not with tabs, and put texts that begin with @, ` or % in quotes"
	}
	return problem
}

// duplicates returns problems for fields that occur twice in one object.
func (d *document) duplicates() []Problem {
	var problems []Problem
	var walk func(node *yaml.Node, path string)
	walk = func(node *yaml.Node, path string) {
		switch node.Kind {
		case yaml.MappingNode:
			seen := map[string]bool{}
			for i := 0; i+1 < len(node.Content); i += 2 {
				key := node.Content[i]
				at := strings.TrimPrefix(path+"."+key.Value, ".")
				if seen[key.Value] {
					problems = append(problems, Problem{
						Position: d.position(key), Object: d.name(), Message: fmt.Sprintf("duplicate field %q", at), Remedy: "remove one of the two",
					})
				}
				seen[key.Value] = true
				walk(node.Content[i+1], at)
			}
		case yaml.SequenceNode:
			for i, item := range node.Content {
				walk(item, path+"["+strconv.Itoa(i)+"]")
			}
		default: // aliases were checked at their anchor
		}
	}
	walk(d.root, "")
	return problems
}

func (d *document) position(node *yaml.Node) Position {
	return Position{File: d.file, Line: d.before + node.Line, Column: node.Column}
}

// name returns the name of the document's object in Problems.
func (d *document) name() string { return describe(d.value) }

// DefaultNamespace is the namespace of objects without one, as with kubectl.
const DefaultNamespace = "default"

// object is an object of the folder.
type object struct {
	unstructured.Unstructured
	// doc contains the object, at path: empty, or an item of a List.
	doc  *document
	path string
	// files may contain texts of the object that are not in doc.
	files map[string][]byte
}

// objects returns the objects of a document: one, or the items of a List.
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

// problem returns a problem about a field of the object.
func (o *object) problem(path, message, remedy string) Problem {
	return Problem{Position: o.doc.at(o.within(path)), Object: describe(o.Object), Field: path, Message: message, Remedy: remedy}
}

// position returns the position of the object.
func (o *object) position() Position {
	if o.path == "" {
		return o.doc.position(o.doc.root)
	}
	return o.doc.at(o.path)
}

// source returns the file and the first line of a text of the object.
func (o *object) source(path, text string) Position {
	if at := o.doc.lines(o.within(path), text); at.File != "" {
		return at
	}
	var found Position
	for _, file := range slices.Sorted(maps.Keys(o.files)) {
		if text == "" || string(o.files[file]) != text {
			continue
		}
		if beside := filepath.Dir(file) == filepath.Dir(o.doc.file); beside || found.File == "" {
			found = Position{File: file, Line: 1} // of several, the one beside the object
		}
	}
	return found
}

// describe returns the name of an object: "Function orders/pricing".
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

// at returns the position of a field, or of the innermost existing field around it.
func (d *document) at(path string) Position {
	key, _ := d.find(path)
	return d.position(key)
}

// atValue returns the position of a field, or of the part of it that has the value.
func (d *document) atValue(path string, bad any) Position {
	key, value := d.find(path)
	text, ok := bad.(string)
	if !ok || value == nil {
		return d.position(key)
	}
	text, _, _ = strings.Cut(text, ",") // the first of several
	for i, part := range value.Content {
		if part.Kind != yaml.ScalarNode || part.Value != text {
			continue
		}
		if value.Kind == yaml.SequenceNode {
			return d.position(part)
		}
		if i%2 == 1 {
			return d.position(value.Content[i-1])
		}
	}
	return d.position(key)
}

// find returns the nodes of a field's name and value. When the field does not exist, value is nil and name is the node of the innermost
// field around it.
func (d *document) find(path string) (name, value *yaml.Node) {
	name, value = d.root, d.root
	for path != "" {
		key, child, rest := step(value, path)
		if child == nil {
			return name, nil
		}
		name, value, path = key, child, rest
	}
	return name, value
}

// step descends one field along the path. Keys may contain dots, so the longest matching key is taken.
func step(node *yaml.Node, path string) (key, child *yaml.Node, rest string) {
	path = strings.TrimPrefix(path, ".")
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	inBrackets := ""
	if strings.HasPrefix(path, "[") {
		if end := strings.Index(path, "]"); end > 0 {
			inBrackets, rest = path[1:end], path[end+1:]
		}
	}
	switch node.Kind {
	case yaml.SequenceNode:
		if index, err := strconv.Atoi(inBrackets); err == nil && index < len(node.Content) {
			return node.Content[index], node.Content[index], rest
		}
	case yaml.MappingNode:
		return stepInto(node, path, inBrackets, rest)
	default:
	}
	return nil, nil, ""
}

func stepInto(node *yaml.Node, path, inBrackets, afterBrackets string) (key, child *yaml.Node, rest string) {
	for i := 0; i+1 < len(node.Content); i += 2 {
		name := node.Content[i]
		if name.Tag == "!!merge" {
			if k, c, r := step(node.Content[i+1], path); c != nil && child == nil {
				key, child, rest = k, c, r
			}
			continue
		}
		if inBrackets == name.Value && inBrackets != "" {
			return name, node.Content[i+1], afterBrackets
		}
		longer := key == nil || len(name.Value) > len(key.Value)
		if after, ok := cutField(path, name.Value); ok && longer {
			key, child, rest = name, node.Content[i+1], after
		}
	}
	return key, child, rest
}

// cutField removes a field's name from the beginning of a path.
func cutField(path, name string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, name)
	return rest, ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// lines returns the position of a text's first line, if the lines of the text are lines of the file.
func (d *document) lines(path, text string) Position {
	_, node := d.find(path)
	if node != nil && node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node == nil || node.Kind != yaml.ScalarNode || node.Value != text {
		return Position{}
	}
	switch {
	case node.Style&yaml.LiteralStyle != 0:
		return Position{File: d.file, Line: d.before + node.Line + 1}
	case node.Style&yaml.FoldedStyle == 0 && !strings.Contains(text, "\n"):
		return Position{File: d.file, Line: d.before + node.Line}
	default:
		return Position{}
	}
}
