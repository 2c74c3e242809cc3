package manifest

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/json"
	kyaml "sigs.k8s.io/yaml"
)

// document is one of the documents of a file.
type document struct {
	file string
	root *yaml.Node
	// before is how many lines of the file come before the document.
	before int
	// value is what kubectl makes of it.
	value map[string]any
}

// parse reads the documents of a file. One that is no YAML does not hide the others.
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

// split yields each document with the number of lines before it. A line that begins with "---" separates documents,
// whatever it stands in.
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
			Position: doc.position(doc.root), Message: "is no object: it has no fields",
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

// unreadable is the error of a parser, with the line in the file and not in the document.
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

// duplicates are the fields that come twice in one object, of which only one counts.
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
		default: // aliases were checked where their anchor is
		}
	}
	walk(d.root, "")
	return problems
}

func (d *document) position(node *yaml.Node) Position {
	return Position{File: d.file, Line: d.before + node.Line, Column: node.Column}
}

// name is the document's object in the words of a Problem.
func (d *document) name() string { return describe(d.value) }
