package filter

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

const (
	// maxWork limits the steps or the resulting bytes of one call: a few milliseconds.
	maxWork = 4 << 20
	// maxPattern is the maximum size of a regular expression with all its repetitions expanded.
	maxPattern = 2000

	matches = "matches"
)

// guards check the arguments of functions whose cost or result can far exceed the length of their arguments. The cost
// limit alone would apply only afterwards.
type guards struct {
	overloads map[string]functions.FunctionOp
}

// guarded maps each of these functions to an estimate of the work of a call.
var guarded = map[string]func(args []ref.Val) int{
	"indexOf":     func(args []ref.Val) int { return length(args[0]) * length(args[1]) },
	"lastIndexOf": func(args []ref.Val) int { return length(args[0]) * length(args[1]) },
	"replace":     func(args []ref.Val) int { return (length(args[0]) + 1) * (length(args[2]) + 1) },
	"format":      func(args []ref.Val) int { return length(args[0]) + content(args[1], maxWork) },
	"join": func(args []ref.Val) int {
		work := content(args[0], maxWork)
		if len(args) > 1 {
			work += items(args[0]) * length(args[1])
		}
		return work
	},
}

func newGuards(env *cel.Env) (*guards, error) {
	g := &guards{overloads: map[string]functions.FunctionOp{}}
	declared := env.Functions()
	for name := range guarded {
		bindings, err := declared[name].Bindings()
		if err != nil {
			return nil, fmt.Errorf("find the function %q of expressions: %w", name, err)
		}
		for _, overload := range bindings {
			g.overloads[overload.Operator] = operation(overload)
		}
	}
	return g, nil
}

func operation(overload *functions.Overload) functions.FunctionOp {
	return func(args ...ref.Val) ref.Val {
		switch {
		case len(args) == 1 && overload.Unary != nil:
			return overload.Unary(args[0])
		case len(args) == 2 && overload.Binary != nil:
			return overload.Binary(args[0], args[1])
		case overload.Function != nil:
			return overload.Function(args...)
		default:
			return types.NoSuchOverloadErr()
		}
	}
}

// decorate puts a guard before the calls of guarded functions.
func (g *guards) decorate(step interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := step.(interpreter.InterpretableCall)
	if !ok {
		return step, nil
	}
	if call.Function() == matches {
		return guardMatches(call)
	}
	work, ok := guarded[call.Function()]
	if !ok {
		return step, nil
	}
	run, ok := g.overloads[call.OverloadID()]
	if !ok {
		return nil, fmt.Errorf("%s cannot be called like this", call.Function())
	}
	return interpreter.NewCall(call.ID(), call.Function(), call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
		if work(args) > maxWork {
			return types.WrapErr(ErrTooExpensive)
		}
		return run(args...)
	}), nil
}

// guardMatches compiles a constant pattern once. A pattern derived from an event could only be compiled per event, at
// an unknown cost.
func guardMatches(call interpreter.InterpretableCall) (interpreter.InterpretableV2, error) {
	literal, ok := call.Args()[len(call.Args())-1].(interpreter.InterpretableConst)
	if !ok {
		return nil, errors.New(`matches needs its pattern as a text in quotes, for example event.subject.matches("^orders/[0-9]+$")`)
	}
	text, _ := literal.Value().Value().(string)
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("the pattern of matches is not a regular expression: %s", oneLine(err.Error()))
	}
	size := sizeOf(parsed)
	if size > maxPattern {
		return nil, fmt.Errorf("the pattern of matches has more than %d steps with its repetitions written out; repeat less in it", maxPattern)
	}
	pattern, err := regexp.Compile(text)
	if err != nil {
		return nil, fmt.Errorf("the pattern of matches is not a regular expression: %s", oneLine(err.Error()))
	}
	return interpreter.NewCall(call.ID(), call.Function()+" "+text, call.OverloadID(), call.Args(), func(args ...ref.Val) ref.Val {
		subject, ok := args[0].(types.String)
		if !ok {
			return types.NoSuchOverloadErr()
		}
		if len(subject)*size > maxWork {
			return types.WrapErr(ErrTooExpensive)
		}
		return types.Bool(pattern.MatchString(string(subject)))
	}), nil
}

// sizeOf estimates the number of instructions of a compiled pattern without compiling it.
func sizeOf(pattern *syntax.Regexp) int {
	size := 1 + len(pattern.Rune)/2
	for _, part := range pattern.Sub {
		size = min(size+sizeOf(part), 2*maxPattern)
	}
	if pattern.Op == syntax.OpRepeat {
		size *= max(pattern.Min, pattern.Max, 1)
	}
	return min(size, 2*maxPattern)
}

// length returns the number of bytes of a text, or the number of elements of anything else.
func length(value ref.Val) int {
	switch v := value.(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	default:
		return items(value)
	}
}

func items(value ref.Val) int {
	sizer, ok := value.(traits.Sizer)
	if !ok {
		return 1
	}
	size, _ := sizer.Size().(types.Int)
	return int(size)
}

// content returns the number of bytes and elements in a value, recursively; it stops soon after most.
func content(value ref.Val, most int) int {
	total := 1
	switch v := value.(type) {
	case traits.Lister:
		for it := v.Iterator(); it.HasNext() == types.True && total <= most; {
			total += content(it.Next(), most-total)
		}
	case traits.Mapper:
		for it := v.Iterator(); it.HasNext() == types.True && total <= most; {
			key := it.Next()
			total += content(key, most-total)
			total += content(v.Get(key), most-total)
		}
	default:
		total += length(value)
	}
	return total
}

const (
	// perUnit is the number of characters that cost one unit.
	perUnit = 10
	// zonePrice is the cost of a function that looks up a time zone, which is in a file.
	zonePrice = 100
)

// prices adds costs that CEL leaves out. CEL derives costs from the types of the expression, which are not known for
// data, and counts a composite value as one.
type prices struct{}

// CallCost returns the cost of a call, or nil for CEL's own estimate.
func (prices) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	price := 0
	switch function {
	case operators.Equals, operators.NotEquals:
		price = comparison(args[0], args[1])
	case operators.In, operators.OldIn:
		price = search(args[0], args[1])
	case operators.Add, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		price = texts(args[0]) + texts(args[1])
	case overloads.Size, overloads.TypeConvertInt, overloads.TypeConvertUint, overloads.TypeConvertDouble,
		overloads.TypeConvertBool, overloads.TypeConvertTimestamp, overloads.TypeConvertDuration,
		overloads.TypeConvertString, overloads.TypeConvertBytes:
		price = texts(args[0])
	case "format":
		price = texts(args[0]) + content(args[1], maxWork)/perUnit + texts(result)
	case "strings.quote":
		price = texts(args[0])
	default:
		if strings.HasSuffix(overload, "_with_tz") {
			price = zonePrice
		}
	}
	if price == 0 {
		return nil
	}
	cost := uint64(1 + price)
	return &cost
}

// texts returns the cost of reading every character of a value, if it is a text.
func texts(value ref.Val) int {
	switch v := value.(type) {
	case types.String:
		return len(v) / perUnit
	case types.Bytes:
		return len(v) / perUnit
	default:
		return 0
	}
}

// comparison returns the cost of comparing two values recursively. It follows the comparison itself, and so takes no
// longer.
func comparison(a, b ref.Val) int {
	switch left := a.(type) {
	case types.String:
		return min(texts(a), texts(b))
	case types.Bytes:
		return min(texts(a), texts(b))
	case traits.Lister:
		right, ok := b.(traits.Lister)
		if !ok || items(left) != items(right) {
			return 0
		}
		return lists(left, right)
	case traits.Mapper:
		right, ok := b.(traits.Mapper)
		if !ok || items(left) != items(right) {
			return 0
		}
		return mappings(left, right)
	default:
		return 0
	}
}

func lists(left, right traits.Lister) int {
	price := 0
	for l, r := left.Iterator(), right.Iterator(); l.HasNext() == types.True && price <= maxCost; {
		price += 1 + comparison(l.Next(), r.Next())
	}
	return price
}

func mappings(left, right traits.Mapper) int {
	price := 0
	for it := left.Iterator(); it.HasNext() == types.True && price <= maxCost; {
		key := it.Next()
		other, ok := right.Find(key)
		if !ok {
			return price
		}
		value, _ := left.Find(key)
		price += 1 + comparison(value, other)
	}
	return price
}

// search returns the cost of comparing a value with every element of a list.
func search(value, in ref.Val) int {
	list, ok := in.(traits.Lister)
	if !ok {
		return texts(value)
	}
	price := 0
	for it := list.Iterator(); it.HasNext() == types.True && price <= maxCost; {
		price += 1 + comparison(value, it.Next())
	}
	return price
}

// Work is the cost of an evaluation, in units of about a microsecond. It is counted rather than measured, so that it is
// the same for an event on every machine.
type Work int

const (
	// Light is the work that costs no more than a few deliveries.
	Light Work = 500

	// bytesPerWork is the number of bytes of JSON that are parsed per unit, conditionsPerWork the number of attributes
	// that are looked up and compared.
	bytesPerWork      = 16
	conditionsPerWork = 100

	// lightConditions limits the attributes of filters that are always light.
	lightConditions = 64
)

// size holds the measures of a filter.
type size struct {
	conditions  int
	expressions int
	characters  int // of the expressions
	loops       int
	patterns    int // steps
	readsData   bool
}

// AlwaysLight reports whether the filter is Light work for every event.
func (f *Filter) AlwaysLight() bool {
	return f.size.expressions == 0 && f.size.conditions <= lightConditions
}

// Bytes returns the approximate memory of the expressions, estimated from their length.
func (f *Filter) Bytes() int64 {
	const perCharacter, perStep = 64, 48
	return int64(perCharacter*f.size.characters + perStep*f.size.patterns)
}

// WorkAhead returns the known part of the work for an event before the evaluation: parsing its JSON and comparing its
// attributes.
func (f *Filter) WorkAhead(e *cloudevent.Event) Work {
	// An attribute is searched among all attributes of an event.
	work := f.size.conditions * (1 + len(e.Extensions)) / conditionsPerWork
	if f.size.readsData {
		work += len(e.Data) / bytesPerWork
	}
	return Work(work)
}

// Measure is like Match, and returns the work as well.
func (f *Filter) Measure(e *cloudevent.Event) (matches bool, work Work, err error) {
	in := &input{event: e}
	matches, err = f.root.match(in)
	return matches, f.WorkAhead(e) + Work(min(in.spent, maxCost)), err
}

const (
	// maxNesting is the maximum nesting of lists, maps, loops and optional values of an expression. The time to check
	// their types grows with the third power of the nesting: 240 nested lists take seconds.
	maxNesting = 10
	// maxLoops limits the number of loops (all, exists, map, filter, ...) in all expressions of a filter. Each adds
	// types, which are searched for every later loop.
	maxLoops = 32
	// maxPatterns limits the total steps of the patterns of a filter, with all repetitions expanded. A step takes 40
	// bytes in memory, but a hundredth of one as text.
	maxPatterns = 4 * maxPattern
)

// shape holds the properties of an expression that make its compilation slow or large regardless of its length.
type shape struct{ nesting, loops, patterns int }

// shapeOf measures an expression before its types are checked. The parser bounds its depth.
func shapeOf(e ast.Expr) shape {
	var s shape
	for _, part := range partsOf(e) {
		inner := shapeOf(part)
		s.nesting, s.loops = max(s.nesting, inner.nesting), s.loops+inner.loops
		s.patterns = min(s.patterns+inner.patterns, 2*maxPatterns)
	}
	s.patterns += patternOf(e)
	if e.Kind() == ast.ComprehensionKind {
		s.loops++
	}
	if nests(e) {
		s.nesting++
	}
	return s
}

// patternOf returns the size of the pattern of matches. The compiler reports malformed patterns.
func patternOf(e ast.Expr) int {
	if e.Kind() != ast.CallKind || e.AsCall().FunctionName() != matches || len(e.AsCall().Args()) == 0 {
		return 0
	}
	args := e.AsCall().Args()
	last := args[len(args)-1]
	if last.Kind() != ast.LiteralKind {
		return 0
	}
	text, _ := last.AsLiteral().Value().(string)
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return 0
	}
	return sizeOf(parsed)
}

// nests reports whether the type of an expression contains the type of another expression.
func nests(e ast.Expr) bool {
	switch e.Kind() {
	case ast.ListKind, ast.MapKind, ast.ComprehensionKind:
		return true
	case ast.CallKind:
		name := e.AsCall().FunctionName()
		return name == "type" || name == "of" || name == "ofNonZeroValue" // the latter two of "optional"
	default:
		return false
	}
}

func partsOf(e ast.Expr) []ast.Expr {
	switch e.Kind() {
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			return append([]ast.Expr{call.Target()}, call.Args()...)
		}
		return call.Args()
	case ast.ListKind:
		return e.AsList().Elements()
	case ast.MapKind:
		entries := e.AsMap().Entries()
		parts := make([]ast.Expr, 0, 2*len(entries))
		for _, entry := range entries {
			parts = append(parts, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
		return parts
	case ast.SelectKind:
		return []ast.Expr{e.AsSelect().Operand()}
	case ast.ComprehensionKind:
		loop := e.AsComprehension()
		return []ast.Expr{loop.IterRange(), loop.AccuInit(), loop.LoopCondition(), loop.LoopStep(), loop.Result()}
	default:
		return nil
	}
}
