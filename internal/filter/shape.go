package filter

import (
	"regexp/syntax"

	"github.com/google/cel-go/common/ast"
)

const (
	// maxNesting is how many lists, maps, loops and optional values of an expression may lie in one another. The time to check
	// their types grows with the third power of that: 240 lists in one another take seconds.
	maxNesting = 10
	// maxLoops is how many loops (all, exists, map, filter, ...) the expressions of a filter may have together. Each brings
	// types of its own, which are looked through for every later one.
	maxLoops = 32
	// maxPatterns is how many steps the patterns of a filter may have together, with all repetitions written out. Each is 40 bytes
	// in memory, and is written in a hundredth of one.
	maxPatterns = 4 * maxPattern
)

// shape is what makes an expression take longer to compile than it is long, and more memory.
type shape struct{ nesting, loops, patterns int }

// shapeOf measures an expression before its types are checked. The parser bounds how deep it is.
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

// patternOf is the size of the pattern of matches. What is none is left to the compiler.
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

// nests reports whether the type of an expression is made of that of another.
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
