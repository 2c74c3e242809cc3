package filter

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"

	"github.com/rouse-run/rouse/api/eventing/v1alpha2"
)

// The bounds of a filter. The schema cannot see into nested filters, so all are checked here.
const (
	maxDepth       = 8
	maxNodes       = 100
	maxItems       = 32
	maxAttributes  = 32
	maxExpression  = 4096
	maxExpressions = 4 * maxExpression
)

// root is where a filter lies in its Subscription.
const root = "spec.filter"

// Filter is a compiled filter.
type Filter struct {
	root *node
	size size
}

// node is one level of a filter; everything that is set has to hold.
type node struct {
	path       string
	attributes []condition
	all        []*node
	any        []*node
	not        *node
	expression cel.Program
}

// Compile checks a filter and prepares it for matching. The error names everything that is wrong with it, one line
// each, by its path. Only nil matches every event: a filter without a condition is an error, because the API server
// drops a misspelt one.
func Compile(f *v1alpha2.Filter) (*Filter, error) {
	if f == nil {
		return &Filter{root: &node{path: root}}, nil
	}
	c := &compiler{}
	compiled := c.filter(root, f, 1)
	if c.nodes > maxNodes {
		c.report("%s: has more than %d filters in it; write it shorter, for example as one cel expression", root, maxNodes)
	}
	if c.size.characters > maxExpressions {
		c.report("%s: has more than %d characters of cel in it; write less", root, maxExpressions)
	}
	if c.size.loops > maxLoops {
		c.report("%s: has more than %d loops in it (all, exists, map, filter, ...); write fewer", root, maxLoops)
	}
	if c.size.patterns > maxPatterns {
		c.report("%s: its patterns of matches have more than %d steps together, with their repetitions written out; repeat less in them", root, maxPatterns)
	}
	if err := errors.Join(c.problems...); err != nil {
		return nil, err
	}
	return &Filter{root: compiled, size: c.size}, nil
}

// compiler collects what it finds while it walks a filter.
type compiler struct {
	problems []error
	nodes    int
	size     size
}

func (c *compiler) report(format string, args ...any) {
	c.problems = append(c.problems, fmt.Errorf(format, args...))
}

func (c *compiler) filter(path string, f *v1alpha2.Filter, depth int) *node {
	c.nodes++
	switch {
	case c.nodes > maxNodes:
		return nil
	case depth > maxDepth:
		c.report("%s: is nested deeper than %d filters; write it flatter, for example as one cel expression", path, maxDepth)
		return nil
	case isEmpty(f):
		c.report("%s: has no condition; set cel, exact, prefix, suffix, all, any or not, and check their spelling, "+
			"or remove it to take every event", path)
		return nil
	}
	return &node{
		path:       path,
		attributes: c.conditions(path, f),
		all:        c.list(path+".all", f.All, depth),
		any:        c.list(path+".any", f.Any, depth),
		not:        c.nested(path+".not", f.Not, depth),
		expression: c.expression(path+".cel", f.CEL),
	}
}

// isEmpty reports whether a filter says nothing about any event.
func isEmpty(f *v1alpha2.Filter) bool {
	return f.CEL == "" && len(f.Exact) == 0 && len(f.Prefix) == 0 && len(f.Suffix) == 0 &&
		len(f.All) == 0 && len(f.Any) == 0 && f.Not == nil
}

func (c *compiler) list(path string, filters []v1alpha2.NestedFilter, depth int) []*node {
	if len(filters) > maxItems {
		c.report("%s: has %d filters; at most %d are allowed", path, len(filters), maxItems)
		return nil
	}
	nodes := make([]*node, 0, len(filters))
	for i := range filters {
		nodes = append(nodes, c.nested(fmt.Sprintf("%s[%d]", path, i), &filters[i], depth))
	}
	return nodes
}

func (c *compiler) nested(path string, f *v1alpha2.NestedFilter, depth int) *node {
	if f == nil {
		return nil
	}
	for member, problem := range f.Problems() {
		place := path
		if member != "" {
			place += "." + clip(member)
		}
		c.report("%s: %s", place, problem)
	}
	if f.Unread != nil {
		return nil
	}
	return c.filter(path, &f.Filter, depth+1)
}

func (c *compiler) expression(path, text string) cel.Program {
	if text == "" {
		return nil
	}
	length := utf8.RuneCountInString(text)
	c.size.characters += length
	switch {
	case length > maxExpression:
		c.report("%s: has %d characters; at most %d are allowed", path, length, maxExpression)
		return nil
	case c.size.characters > maxExpressions:
		return nil
	}
	compiled, problems := compileExpression(text, maxLoops-c.size.loops, maxPatterns-c.size.patterns)
	c.size.expressions++
	c.size.loops += compiled.loops
	c.size.patterns += compiled.patterns
	c.size.readsData = c.size.readsData || compiled.readsData
	for _, problem := range problems {
		c.report("%s: %s", path, problem)
	}
	return compiled.program
}

// oneLine keeps a message of a library one line of ours.
func oneLine(message string) string { return shorten(message, 300) }

// clip keeps a name of the filter from being the whole message.
func clip(name string) string { return shorten(name, 64) }

func shorten(text string, longest int) string {
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) > longest {
		return string([]rune(text)[:longest]) + "..."
	}
	return text
}
