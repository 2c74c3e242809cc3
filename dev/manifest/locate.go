package manifest

import (
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// at is the position of a field, or of the innermost field around it that is there.
func (d *document) at(path string) Position {
	key, _ := d.find(path)
	return d.position(key)
}

// atValue is the position of a field, or of that part of it which has the value.
func (d *document) atValue(path string, bad any) Position {
	key, value := d.find(path)
	text, ok := bad.(string)
	if !ok || value == nil {
		return d.position(key)
	}
	text, _, _ = strings.Cut(text, ",") // the first, where several are named
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

// find returns the node that names a field and that of its value. The value is nil, and the node that of the innermost
// field around it, when the field is not there.
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

// step goes one field down the path. Keys may have dots, so the longest one that fits counts.
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

// cutField cuts the name of a field off a path that begins with it.
func cutField(path, name string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, name)
	return rest, ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// lines is the first line of a text, if the lines of the text are lines of the file.
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
