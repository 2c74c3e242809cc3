package filter

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

// headerVariable has the headers of a request, by their names in lower case.
const headerVariable = "header"

// Result is what an Expression says.
type Result int

// The results.
const (
	Text Result = iota
	Truth
	Anything
)

// inRequests are the expressions that map a request to an event, by what they say.
var inRequests = map[Result]language{Text: mapping(cel.StringType), Truth: mapping(cel.BoolType), Anything: mapping(nil)}

var requestEnvironment = sync.OnceValues(func() (*sharedEnvironment, error) {
	return newEnvironment(cel.Variable(headerVariable, cel.MapType(cel.StringType, cel.StringType)))
})

// mapping returns the language of expressions of a type, or of any type if it is nil. Of what is only known for a request, such as
// data.id, the type is checked there.
func mapping(want *cel.Type) language {
	return language{
		environment: requestEnvironment,
		refuses: func(t *cel.Type) string {
			if want == nil || t.IsExactType(want) || t.IsExactType(cel.DynType) {
				return ""
			}
			return fmt.Sprintf("is of type %s, not %s", t, want)
		},
		remedy: `; it knows "data" (the body as JSON), "header" (headers by their names in lower case) and "event" (attributes), ` +
			`for example "shop." + data.action`,
	}
}

// Expression maps a request to a part of its event.
type Expression struct {
	path    string
	program cel.Program
}

// CompileExpression compiles an expression, within the same bounds as one of a filter. The error begins with path and lists every
// problem.
func CompileExpression(path, text string, says Result) (*Expression, error) {
	if length := utf8.RuneCountInString(text); length > maxExpression {
		return nil, fmt.Errorf("%s: has %d characters; at most %d are allowed", path, length, maxExpression)
	}
	compiled, problems := compileExpression(inRequests[says], text, maxLoops, maxPatterns)
	switch {
	case compiled.loops > maxLoops:
		problems = append(problems, fmt.Sprintf("has more than %d loops; write fewer", maxLoops))
	case compiled.patterns > maxPatterns:
		problems = append(problems, fmt.Sprintf("its patterns have more than %d steps; repeat less in them", maxPatterns))
	}
	if len(problems) > 0 {
		errs := make([]error, len(problems))
		for i, problem := range problems {
			errs[i] = fmt.Errorf("%s: %s", path, problem)
		}
		return nil, errors.Join(errs...)
	}
	return &Expression{path: path, program: compiled.program}, nil
}

// Scope has the variables of one request. The cost of all expressions in it is bounded together.
type Scope struct{ in input }

// NewScope returns the scope of a request that becomes an event, whose data are its body.
func NewScope(ev *cloudevent.Event, header map[string]string) *Scope {
	return &Scope{input{event: ev, header: header}}
}

func (s *Scope) evaluate(x *Expression) (ref.Val, error) {
	if s.in.spent > maxCost {
		return nil, fmt.Errorf("evaluate %s: %w", x.path, ErrTooExpensive)
	}
	result, details, err := x.program.Eval(&s.in)
	if cost := details.ActualCost(); cost != nil {
		s.in.spent += *cost
	}
	if err != nil {
		return nil, fmt.Errorf("evaluate %s: %w", x.path, reason(err))
	}
	return result, nil
}

// Text evaluates an expression that says a string.
func (s *Scope) Text(x *Expression) (string, error) {
	result, err := s.evaluate(x)
	if err != nil {
		return "", err
	}
	text, ok := result.(types.String)
	if !ok {
		return "", fmt.Errorf("evaluate %s: is of type %s, not string: %w", x.path, result.Type().TypeName(), ErrNotEvaluable)
	}
	return string(text), nil
}

// Truth evaluates an expression that says true or false.
func (s *Scope) Truth(x *Expression) (bool, error) {
	result, err := s.evaluate(x)
	if err != nil {
		return false, err
	}
	truth, ok := result.(types.Bool)
	if !ok {
		return false, fmt.Errorf("evaluate %s: is of type %s, not bool: %w", x.path, result.Type().TypeName(), ErrNotEvaluable)
	}
	return bool(truth), nil
}

// JSON evaluates an expression and returns its value as JSON.
func (s *Scope) JSON(x *Expression) ([]byte, error) {
	result, err := s.evaluate(x)
	if err != nil {
		return nil, err
	}
	if content(result, maxWork) > maxWork {
		return nil, fmt.Errorf("evaluate %s: %w", x.path, ErrTooExpensive)
	}
	plain, err := plainOf(result)
	if err != nil {
		return nil, fmt.Errorf("evaluate %s: %w", x.path, err)
	}
	text, err := json.Marshal(plain)
	if err != nil {
		return nil, fmt.Errorf("evaluate %s: %w", x.path, ErrNotEvaluable)
	}
	return text, nil
}

// plainOf returns a value as encoding/json writes it. Whole numbers stay exact.
func plainOf(value ref.Val) (any, error) {
	switch v := value.(type) {
	case types.Null:
		return nil, nil //nolint:nilnil // null is a value
	case types.Bool, types.Int, types.Uint, types.String, types.Bytes:
		return v.Value(), nil
	case types.Double:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("JSON has no %v: %w", v, ErrNotEvaluable)
		}
		return float64(v), nil
	case types.Timestamp:
		return v.Format(time.RFC3339Nano), nil
	case types.Duration:
		return v.String(), nil
	case *types.Optional:
		return plainOf(presentOf(v))
	case traits.Mapper:
		return membersOf(v)
	case traits.Lister:
		return elementsOf(v)
	default:
		return nil, fmt.Errorf("JSON has no %s: %w", value.Type().TypeName(), ErrNotEvaluable)
	}
}

// presentOf returns null for what is absent.
func presentOf(v *types.Optional) ref.Val {
	if !v.HasValue() {
		return types.NullValue
	}
	return v.GetValue()
}

func membersOf(mapping traits.Mapper) (map[string]any, error) {
	members := map[string]any{}
	for it := mapping.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, fmt.Errorf("a map has a key that is no string: %w", ErrNotEvaluable)
		}
		member, err := plainOf(mapping.Get(key))
		if err != nil {
			return nil, err
		}
		members[string(name)] = member
	}
	return members, nil
}

func elementsOf(list traits.Lister) ([]any, error) {
	elements := []any{}
	for it := list.Iterator(); it.HasNext() == types.True; {
		element, err := plainOf(it.Next())
		if err != nil {
			return nil, err
		}
		elements = append(elements, element)
	}
	return elements, nil
}
