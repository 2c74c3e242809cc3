package filter

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

// The reasons why an expression cannot be evaluated.
var (
	// ErrNotJSON means that the expression reads the data, which is not JSON.
	ErrNotJSON = errors.New("the data of the event is not JSON")
	// ErrTooExpensive means that the evaluation would take too long or too much memory.
	ErrTooExpensive = errors.New("the expression costs too much for this event")
	// ErrNotEvaluable means that a field is missing or has another type than the expression requires.
	ErrNotEvaluable = errors.New("the expression does not fit this event")
)

// Match reports whether the event matches. If it could not be evaluated, Match returns false and one of ErrNotJSON,
// ErrTooExpensive and ErrNotEvaluable, with the path in the filter and nothing of the event.
//
// As in CEL, a part that cannot be evaluated matters only where the other parts do not determine the result.
func (f *Filter) Match(e *cloudevent.Event) (bool, error) {
	return f.root.match(&input{event: e})
}

func (n *node) match(in *input) (bool, error) {
	for _, condition := range n.attributes {
		if !condition.matches(in.event) {
			return false, nil
		}
	}
	var unknown error
	for _, part := range []func(*input) (bool, error){n.matchAll, n.matchAny, n.matchNot, n.matchExpression} {
		matches, err := part(in)
		switch {
		case err != nil && unknown == nil:
			unknown = err
		case err == nil && !matches:
			return false, nil
		}
	}
	return unknown == nil, unknown
}

func (n *node) matchAll(in *input) (bool, error) {
	var unknown error
	for _, child := range n.all {
		matches, err := child.match(in)
		switch {
		case err != nil && unknown == nil:
			unknown = err
		case err == nil && !matches:
			return false, nil
		}
	}
	return unknown == nil, unknown
}

func (n *node) matchAny(in *input) (bool, error) {
	var unknown error
	for _, child := range n.any {
		matches, err := child.match(in)
		switch {
		case matches:
			return true, nil
		case unknown == nil:
			unknown = err
		}
	}
	return len(n.any) == 0, unknown
}

func (n *node) matchNot(in *input) (bool, error) {
	if n.not == nil {
		return true, nil
	}
	matches, err := n.not.match(in)
	return err == nil && !matches, err
}

func (n *node) matchExpression(in *input) (bool, error) {
	if n.expression == nil {
		return true, nil
	}
	if in.spent > maxCost {
		return false, fmt.Errorf("evaluate %s.cel: %w", n.path, ErrTooExpensive)
	}
	result, details, err := n.expression.Eval(in)
	if cost := details.ActualCost(); cost != nil {
		in.spent += *cost
	}
	if err != nil {
		err = reason(err)
		if errors.Is(err, ErrTooExpensive) {
			in.spent = maxCost + 1
		}
		return false, fmt.Errorf("evaluate %s.cel: %w", n.path, err)
	}
	return result == types.True, nil
}

// reason replaces an error of CEL, which may quote the event.
func reason(err error) error {
	var cancelled interpreter.EvalCancelledError
	switch {
	case errors.Is(err, ErrNotJSON):
		return ErrNotJSON
	case errors.Is(err, ErrTooExpensive), errors.As(err, &cancelled):
		return ErrTooExpensive
	default:
		return ErrNotEvaluable
	}
}

var _ cel.Activation = (*input)(nil)

// input provides the variables of one event. Variables are made when an expression names them.
type input struct {
	event      *cloudevent.Event
	header     map[string]string // of the request that becomes the event
	attributes map[string]string
	data       ref.Val
	spent      uint64 // the accumulated cost of all expressions
}

// ResolveName returns the value of a variable.
func (in *input) ResolveName(name string) (any, bool) {
	switch name {
	case eventVariable:
		if in.attributes == nil {
			in.attributes = attributesOf(in.event)
		}
		return in.attributes, true
	case dataVariable:
		if in.data == nil {
			in.data = parse(in.event.Data)
		}
		return in.data, true
	case headerVariable:
		return in.header, true
	default:
		return nil, false
	}
}

// Parent implements cel.Activation.
func (in *input) Parent() cel.Activation { return nil }

func attributesOf(e *cloudevent.Event) map[string]string {
	attributes := make(map[string]string, 8+len(e.Extensions))
	for _, name := range []string{
		"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema",
	} {
		if value, ok := e.Attribute(name); ok {
			attributes[name] = value
		}
	}
	for _, extension := range e.Extensions {
		attributes[extension.Name] = extension.Value
	}
	return attributes
}

// parse parses JSON. It ignores the content type, because many publishers omit it.
func parse(data []byte) ref.Val {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return types.WrapErr(ErrNotJSON)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return types.WrapErr(ErrNotJSON)
	}
	return valueOf(value)
}

// valueOf preserves integers, so that large ones stay exact and can be an index.
func valueOf(value any) ref.Val {
	switch v := value.(type) {
	case json.Number:
		return number(v.String())
	case []any:
		list := make([]ref.Val, len(v))
		for i, element := range v {
			list[i] = valueOf(element)
		}
		return types.NewRefValList(types.DefaultTypeAdapter, list)
	case map[string]any:
		for key, member := range v {
			v[key] = valueOf(member)
		}
		return types.NewStringInterfaceMap(types.DefaultTypeAdapter, v)
	default:
		return types.DefaultTypeAdapter.NativeToValue(v)
	}
}

func number(text string) ref.Val {
	if !strings.ContainsAny(text, ".eE") {
		if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
			return types.Int(whole)
		}
	}
	float, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return types.WrapErr(ErrNotJSON)
	}
	return types.Double(float)
}
