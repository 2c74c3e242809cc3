package filter

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/interpreter"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

// Why an expression could not be evaluated.
var (
	// ErrNotJSON means that it reads the data, which is not JSON.
	ErrNotJSON = errors.New("the data of the event is not JSON")
	// ErrTooExpensive means that it would take too long or too much memory.
	ErrTooExpensive = errors.New("the expression costs too much for this event")
	// ErrNotEvaluable means that a field is missing or of another type than the expression needs.
	ErrNotEvaluable = errors.New("the expression does not fit this event")
)

// Match reports whether the event is wanted. With an error it could not be evaluated, and is not: one of ErrNotJSON,
// ErrTooExpensive and ErrNotEvaluable, with the place in the filter and nothing of the event.
//
// As in CEL, a part that cannot be evaluated matters only where the others do not decide.
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
