package filter

import (
	"fmt"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
)

// The names an expression knows.
const (
	eventVariable = "event"
	dataVariable  = "data"
)

const (
	// maxCost is what the steps of one evaluation may cost together, and where the expressions of a filter stop, in CEL's unit:
	// about one for each field, element or ten characters that is looked at. An honest condition on an item of a list
	// costs less than ten, so this is enough for some thousands of items. What is made to be slow takes some
	// 20 ms up to here: the library's own accounts of a loop grow with the square of its length.
	maxCost = 20_000

	// maxSyntaxNodes bounds what macros make of an expression.
	maxSyntaxNodes = 10_000

	// stringsVersion is the first version of the extension that knows what each of its functions costs.
	stringsVersion = 5
)

// environment is what all expressions are compiled in. It is large, takes long to make and never changes, so all
// Subscriptions share one.
var environment = sync.OnceValues(newEnvironment)

type sharedEnvironment struct {
	cel     *cel.Env
	options []cel.ProgramOption
}

func newEnvironment() (*sharedEnvironment, error) {
	env, err := cel.NewEnv(
		cel.Variable(eventVariable, cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable(dataVariable, cel.DynType),
		cel.OptionalTypes(),
		cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
		cel.ParserExpressionSizeLimit(maxExpression),
		cel.ExpressionNodeLimit(maxSyntaxNodes),
		ext.Strings(ext.StringsVersion(stringsVersion)),
	)
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

// expression is what is known of one after it was compiled.
type expression struct {
	program   cel.Program // says true or false; nil if something is wrong
	loops     int
	patterns  int
	readsData bool
}

// compileExpression returns what is wrong with the text, if something is. More loops and steps of patterns than are left are
// for the caller to report.
func compileExpression(text string, loopsLeft, patternsLeft int) (expression, []string) {
	env, err := environment()
	if err != nil {
		return expression{}, []string{err.Error()}
	}
	parsed, issues := env.cel.Parse(text)
	if issues.Err() != nil {
		return expression{}, explain(issues)
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
		return expression{}, explain(issues)
	}
	if !tree.OutputType().IsExactType(cel.BoolType) {
		return expression{}, []string{fmt.Sprintf("is of type %s, not bool; compare it with something, for example data.amount > 100 "+
			"or data.express == true", tree.OutputType())}
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

// explain says where each problem is, by line and column.
func explain(issues *cel.Issues) []string {
	const (
		most   = 5
		remedy = `; write a condition on "event" (its attributes) and "data" (its JSON), ` +
			`for example event.type == "order.received" && data.amount > 100`
	)
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
