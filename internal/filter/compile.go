package filter

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"

	"github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/internal/cloudevent"
)

// The bounds of a filter. The schema does not cover nested filters, so all are checked here.
const (
	maxDepth       = 8
	maxNodes       = 100
	maxItems       = 32
	maxAttributes  = 32
	maxExpression  = 4096
	maxExpressions = 4 * maxExpression
)

// root is the path of a filter in its Subscription.
const root = "spec.filter"

// Filter is a compiled filter.
type Filter struct {
	root *node
	size size
}

// node is one level of a filter; all of its conditions must hold.
type node struct {
	path       string
	attributes []condition
	all        []*node
	any        []*node
	not        *node
	expression cel.Program
}

// Compile compiles a filter for matching. The error lists every problem of the filter by its path, one per line. Only
// nil matches every event: a filter without a condition is an error, because the API server drops misspelt fields.
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

// compiler collects problems while it walks a filter.
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

// isEmpty reports whether a filter has no conditions.
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
	compiled, problems := compileExpression(inFilters, text, maxLoops-c.size.loops, maxPatterns-c.size.patterns)
	c.size.expressions++
	c.size.loops += compiled.loops
	c.size.patterns += compiled.patterns
	c.size.readsData = c.size.readsData || compiled.readsData
	for _, problem := range problems {
		c.report("%s: %s", path, problem)
	}
	return compiled.program
}

// oneLine shortens a library's message to one line.
func oneLine(message string) string { return shorten(message, 300) }

// clip shortens a name from the filter for a message.
func clip(name string) string { return shorten(name, 64) }

func shorten(text string, longest int) string {
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) > longest {
		return string([]rune(text)[:longest]) + "..."
	}
	return text
}

// condition compares one attribute of an event with a text.
type condition struct {
	name, want string
	holds      func(value, want string) bool
}

func (c condition) matches(e *cloudevent.Event) bool {
	value, ok := e.Attribute(c.name)
	return ok && c.holds(value, c.want)
}

func (c *compiler) conditions(path string, f *v1alpha2.Filter) []condition {
	forms := []struct {
		name       string
		attributes map[string]string
		holds      func(value, want string) bool
	}{
		{"exact", f.Exact, func(value, want string) bool { return value == want }},
		{"prefix", f.Prefix, strings.HasPrefix},
		{"suffix", f.Suffix, strings.HasSuffix},
	}
	var conditions []condition
	for _, form := range forms {
		place := path + "." + form.name
		if len(form.attributes) > maxAttributes {
			c.report("%s: has %d attributes; at most %d are allowed", place, len(form.attributes), maxAttributes)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(form.attributes)) {
			want := form.attributes[name]
			if c.checkAttribute(place, name, want) {
				conditions = append(conditions, condition{name: name, want: want, holds: form.holds})
			}
		}
	}
	c.size.conditions += len(conditions)
	return conditions
}

func (c *compiler) checkAttribute(place, name, want string) bool {
	switch {
	case name == "data":
		c.report("%s.data: data is not an attribute; compare it in cel, for example data.amount > 100", place)
	case !isAttributeName(name):
		c.report("%s.%s: is not the name of an attribute; use lower-case letters and digits only", place, clip(name))
	case want == "":
		c.report("%s.%s: is empty; name the text to compare with, or remove it; "+
			"to check whether an event has an attribute, use cel, for example %q in event", place, clip(name), clip(name))
	default:
		return true
	}
	return false
}

func isAttributeName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}

// The variables of an expression.
const (
	eventVariable = "event"
	dataVariable  = "data"
)

const (
	// maxCost limits the accumulated cost of one evaluation and of all expressions of a filter, in CEL's unit: about
	// one for each field, element or ten characters that is read. A usual condition on an item of a list costs less
	// than ten, so this is enough for some thousands of items. An expression built to be slow takes some 20 ms to reach
	// the limit: the library's own accounts of a loop grow with the square of its length.
	maxCost = 20_000

	// maxSyntaxNodes bounds the size of an expression after the expansion of macros.
	maxSyntaxNodes = 10_000

	// stringsVersion is the first version of the extension that declares the cost of each function.
	stringsVersion = 5
)

// language is what expressions of one use may say. Its CEL environment is large, takes long to make and never changes, so all
// expressions share it.
type language struct {
	environment func() (*sharedEnvironment, error)
	// refuses returns why an expression may not have a type, or nothing.
	refuses func(*cel.Type) string
	remedy  string
}

// inFilters are the conditions of filters.
var inFilters = language{
	environment: sync.OnceValues(func() (*sharedEnvironment, error) { return newEnvironment() }),
	refuses: func(t *cel.Type) string {
		if t.IsExactType(cel.BoolType) {
			return ""
		}
		return fmt.Sprintf("is of type %s, not bool; compare it with something, for example data.amount > 100 or data.express == true", t)
	},
	remedy: `; write a condition on "event" (its attributes) and "data" (its JSON), ` +
		`for example event.type == "order.received" && data.amount > 100`,
}

type sharedEnvironment struct {
	cel     *cel.Env
	options []cel.ProgramOption
}

func newEnvironment(further ...cel.EnvOption) (*sharedEnvironment, error) {
	env, err := cel.NewEnv(append(further,
		cel.Variable(eventVariable, cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable(dataVariable, cel.DynType),
		cel.OptionalTypes(),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ExpressionNodeLimit(maxSyntaxNodes),
		ext.Strings(ext.StringsVersion(stringsVersion)),
	)...)
	if err != nil {
		return nil, fmt.Errorf("make the environment of expressions: %w", err)
	}
	guards, err := newGuards(env)
	if err != nil {
		return nil, err
	}
	return &sharedEnvironment{cel: env, options: []cel.ProgramOption{
		cel.EvalOptions(cel.OptOptimize),
		cel.CustomDecoratorV2(guards.decorate),
		cel.CostTracking(prices{}),
		cel.CostLimit(maxCost),
	}}, nil
}

// expression is a compiled expression with its measures.
type expression struct {
	program   cel.Program // nil if something is wrong
	loops     int
	patterns  int
	readsData bool
}

// compileExpression returns the compiled expression, or its problems. The caller reports loops and pattern steps beyond
// the given limits.
func compileExpression(in language, text string, loopsLeft, patternsLeft int) (expression, []string) {
	env, err := in.environment()
	if err != nil {
		return expression{}, []string{err.Error()}
	}
	parsed, issues := env.cel.Parse(text)
	if issues.Err() != nil {
		return expression{}, explain(issues, in.remedy)
	}
	shape := shapeOf(parsed.NativeRep().Expr())
	switch {
	case shape.nesting > maxNesting:
		return expression{}, []string{fmt.Sprintf("has more than %d lists, maps and loops in one another; write it flatter", maxNesting)}
	case shape.loops > loopsLeft, shape.patterns > patternsLeft:
		return expression{loops: shape.loops, patterns: shape.patterns}, nil
	}
	tree, issues := env.cel.Check(parsed)
	if issues.Err() != nil {
		return expression{}, explain(issues, in.remedy)
	}
	if refused := in.refuses(tree.OutputType()); refused != "" {
		return expression{}, []string{refused}
	}
	program, err := env.cel.Program(tree, env.options...)
	if err != nil {
		return expression{}, []string{err.Error()}
	}
	return expression{program: program, loops: shape.loops, patterns: shape.patterns, readsData: refersTo(tree, dataVariable)}, nil
}

func refersTo(tree *cel.Ast, variable string) bool {
	for _, reference := range tree.NativeRep().ReferenceMap() {
		if reference.Name == variable {
			return true
		}
	}
	return false
}

// explain returns each problem with its line and column.
func explain(issues *cel.Issues, remedy string) []string {
	const most = 5
	var problems []string
	for _, issue := range issues.Errors() {
		if len(problems) == most {
			break
		}
		problem := oneLine(issue.Message)
		if line := issue.Location.Line(); line > 0 {
			problem = fmt.Sprintf("line %d, column %d: %s", line, issue.Location.Column()+1, problem)
		}
		problems = append(problems, problem)
	}
	if len(problems) > 0 {
		problems[len(problems)-1] += remedy
	}
	return problems
}
