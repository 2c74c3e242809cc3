package filter

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
)

const (
	// maxWork is how many steps one call may take, or how many bytes it may make: a few milliseconds.
	maxWork = 4 << 20
	// maxPattern is the size of a regular expression with all its repetitions written out.
	maxPattern = 2000

	matches = "matches"
)

// guards stand before the functions that can take far longer, or make far more, than their arguments are long. The
// cost limit alone would notice only afterwards.
type guards struct {
	overloads map[string]functions.FunctionOp
}

// guarded says for each of these functions how much work a call is.
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

// decorate puts a guard before the calls that need one.
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

// guardMatches compiles the pattern once. One that is made from an event could be compiled only then, at a cost that
// is not known before.
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

// sizeOf is about how many instructions a pattern is compiled to, counted before it is.
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

// length is how many bytes a text has, or how many elements anything else.
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

// content is how many bytes and elements are in a value and all that lies in it; it counts on to a little over most.
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
