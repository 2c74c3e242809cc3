package filter

import "github.com/google/cel-go/common/ast"

const (
	// maxNesting is how many lists, maps, loops and optional values of an expression may lie in one another. The time to check
	// their types grows with the third power of that: 240 lists in one another take seconds.
	maxNesting = 10
	// maxLoops is how many loops (all, exists, map, filter, ...) the expressions of a filter may have together. Each brings
	// types of its own, which are looked through for every later one.
	maxLoops = 32
)

// shape is what makes an expression take longer to compile than it is long.
type shape struct{ nesting, loops int }

// shapeOf looks at an expression before its types are checked. The parser bounds how deep it is.
func shapeOf(e ast.Expr) shape {
	var s shape
	for _, part := range partsOf(e) {
		inner := shapeOf(part)
		s.nesting, s.loops = max(s.nesting, inner.nesting), s.loops+inner.loops
	}
	if e.Kind() == ast.ComprehensionKind {
		s.loops++
	}
	if nests(e) {
		s.nesting++
	}
	return s
}

// nests says whether the type of an expression is made of that of another.
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
