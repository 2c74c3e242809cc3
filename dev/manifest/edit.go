package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	kyaml "sigs.k8s.io/yaml"
)

// errNotEditable is returned for an object whose lines are not simply those of a file.
var errNotEditable = errors.New("edit its file by hand")

// section is a document of a file with its bytes.
type section struct {
	header []byte // the line with ---, if it has one
	text   []byte
}

// sections splits a file into its documents, byte by byte.
func sections(content []byte) []section {
	var found []section
	current := section{}
	for line := range bytes.Lines(content) {
		if rest, ok := bytes.CutPrefix(line, []byte("---")); ok && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n")) {
			if len(current.header)+len(current.text) > 0 {
				found = append(found, current)
			}
			current = section{header: line}
			continue
		}
		current.text = append(current.text, line...)
	}
	if len(current.header)+len(current.text) > 0 {
		found = append(found, current)
	}
	return found
}

// is reports whether the document is the object.
func (s section) is(object string) bool {
	var value map[string]any
	return kyaml.Unmarshal(s.text, &value) == nil && value != nil && describe(value) == object
}

// edited is a file with a changed document.
type edited struct {
	file          []byte
	before, after []byte // the document
}

// edit sets fields of an object in a file. Without it the object is added as the last document.
func edit(content []byte, object string, fields map[string]any) (edited, error) {
	all := sections(content)
	at := slices.IndexFunc(all, func(s section) bool { return s.is(object) })
	if at < 0 {
		added := section{}
		if len(bytes.TrimSpace(content)) > 0 {
			added.header = []byte("---\n")
			if last := &all[len(all)-1]; !bytes.HasSuffix(last.text, []byte("\n")) {
				last.text = append(last.text, '\n')
			}
		}
		all, at = append(all, added), len(all)
	} else if rest := bytes.TrimSpace(bytes.TrimPrefix(all[at].header, []byte("---"))); len(rest) > 0 && rest[0] != '#' {
		return edited{}, fmt.Errorf("it begins on the line of its ---: %w", errNotEditable)
	}
	after, err := overlaid(all[at].text, fields)
	if err != nil {
		return edited{}, err
	}
	result := edited{before: all[at].text, after: after}
	all[at].text = after
	for _, each := range all {
		result.file = append(append(result.file, each.header...), each.text...)
	}
	return result, nil
}

// overlaid returns a document with fields set; a field that is nil is removed. Comments, and the form of all other fields, stay.
func overlaid(text []byte, fields map[string]any) (after []byte, err error) {
	for _, lines := range []overlayer{overlayer(yaml.LiteralStyle), overlayer(yaml.DoubleQuotedStyle)} { // the second holds every text
		if after, err = lines.apply(text, fields); err != nil {
			return nil, err
		}
		if err = sameAs(text, after, fields); err == nil {
			return after, nil
		}
	}
	return nil, err
}

// overlayer is the style in which texts of several lines are written.
type overlayer yaml.Style

func (o overlayer) apply(text []byte, fields map[string]any) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return nil, fmt.Errorf("it is no YAML (%w): %w", err, errNotEditable)
	}
	if root.Kind == 0 {
		root = yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{{Kind: yaml.MappingNode, Tag: "!!map"}}}
	}
	if err := o.overlay(root.Content[0], fields); err != nil {
		return nil, err
	}
	var after bytes.Buffer
	encoder := yaml.NewEncoder(&after)
	encoder.SetIndent(2)
	if err := encoder.Encode(&root); err != nil {
		return nil, fmt.Errorf("write it as YAML: %w", err)
	}
	return after.Bytes(), nil
}

// order puts the fields of a new object as people write them.
var order = []string{"apiVersion", "kind", "metadata", "name", "namespace", "runtime", "sink", "scaleConfig", "source", "types"}

// rank returns the place of a field in a new object: those without one come last.
func rank(name string) int {
	if at := slices.Index(order, name); at >= 0 {
		return at
	}
	return len(order)
}

func (o overlayer) overlay(node *yaml.Node, fields map[string]any) error {
	if node.Kind != yaml.MappingNode {
		return fmt.Errorf("a field that has fields is none there: %w", errNotEditable)
	}
	names := slices.SortedFunc(maps.Keys(fields), func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	for _, name := range names {
		if err := o.overlayField(node, name, fields[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (o overlayer) overlayField(node *yaml.Node, name string, value any) error {
	at := keyOf(node, name)
	switch {
	case value == nil && at < 0:
		return nil
	case value == nil:
		node.Content = slices.Delete(node.Content, at, at+2)
		return nil
	case at < 0:
		return o.addField(node, name, value)
	}
	inner, nested := value.(map[string]any)
	there := node.Content[at+1]
	if there.Kind == yaml.AliasNode || there.Anchor != "" {
		return fmt.Errorf("it has an anchor or an alias: %w", errNotEditable)
	}
	if nested {
		return o.overlay(there, inner)
	}
	o.replace(there, value)
	return nil
}

// keyOf returns the index of a key of a mapping, negative for none.
func keyOf(node *yaml.Node, name string) int {
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == name {
			return i
		}
	}
	return -1
}

// addField adds a field, unless it would have no fields itself.
func (o overlayer) addField(node *yaml.Node, name string, value any) error {
	made := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	if inner, nested := value.(map[string]any); !nested {
		made = o.valueNode(value)
	} else if err := o.overlay(made, inner); err != nil || len(made.Content) == 0 {
		return err
	}
	node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, made)
	return nil
}

// replace puts a value into a node, whose comments and form stay where they can.
func (o overlayer) replace(node *yaml.Node, value any) {
	var before any
	if node.Decode(&before) == nil && equal(before, value) {
		return
	}
	made := o.valueNode(value)
	made.HeadComment, made.LineComment, made.FootComment = node.HeadComment, node.LineComment, node.FootComment
	if made.Kind == yaml.SequenceNode {
		made.Style = node.Style
	}
	*node = *made
}

// valueNode returns a value as people write it: lines as a block.
func (o overlayer) valueNode(value any) *yaml.Node {
	node := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str"}
	switch value := value.(type) {
	case string:
		if node.Value = value; strings.Contains(value, "\n") {
			node.Style = yaml.Style(o)
		}
	case []any:
		node.Kind, node.Tag = yaml.SequenceNode, "!!seq"
		for _, each := range value {
			node.Content = append(node.Content, o.valueNode(each))
		}
	default: // a number or a boolean: else the object reads as another one
		if err := node.Encode(value); err != nil {
			node.Value = fmt.Sprint(value)
		}
	}
	return node
}

// sameAs returns an error unless the text after an edit reads as the one before it with the fields.
func sameAs(before, after []byte, fields map[string]any) error {
	var wanted, got map[string]any
	if err := errors.Join(kyaml.Unmarshal(before, &wanted), kyaml.Unmarshal(after, &got)); err != nil {
		return fmt.Errorf("read what was edited: %w", err)
	}
	if wanted == nil {
		wanted = map[string]any{}
	}
	merge(wanted, fields)
	if !equal(wanted, got) {
		return fmt.Errorf("it would read as another object: %w", errNotEditable)
	}
	return nil
}

func merge(into, fields map[string]any) {
	for name, value := range fields {
		inner, nested := value.(map[string]any)
		switch {
		case value == nil:
			delete(into, name)
		case !nested:
			into[name] = value
		default:
			below, is := into[name].(map[string]any)
			if !is {
				below = map[string]any{}
			}
			if merge(below, inner); is || len(below) > 0 {
				into[name] = below
			}
		}
	}
}

// equal compares values as JSON has them.
func equal(a, b any) bool {
	var left, right any
	for from, into := range map[*any]*any{&a: &left, &b: &right} {
		text, err := json.Marshal(*from)
		if err != nil || json.Unmarshal(text, into) != nil {
			return false
		}
	}
	return reflect.DeepEqual(left, right)
}
