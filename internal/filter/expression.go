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
	// maxCost is what the steps of one evaluation may cost together, and where the expressions of a filter stop, in CEL's unit: about one for each field,
	// element or ten characters that is looked at. An honest condition on an item of a list costs less than ten, so
	// this is enough for every item of an order. What is made to be slow takes some 10 ms up to here, and at most some
	// 100 ms: the library's own accounts of a loop grow with the square of its length.
	maxCost = 50_000

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

// compileExpression returns a program that says true or false, or what is wrong with the text.
func compileExpression(text string) (cel.Program, []string) {
	env, err := environment()
	if err != nil {
		return nil, []string{err.Error()}
	}
	tree, issues := env.cel.Compile(text)
	if issues.Err() != nil {
		return nil, explain(issues)
	}
	if !tree.OutputType().IsExactType(cel.BoolType) {
		return nil, []string{fmt.Sprintf("is of type %s, not bool; compare it with something, for example data.amount > 100 "+
			"or data.express == true", tree.OutputType())}
	}
	program, err := env.cel.Program(tree, env.options...)
	if err != nil {
		return nil, []string{err.Error()}
	}
	return program, nil
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
