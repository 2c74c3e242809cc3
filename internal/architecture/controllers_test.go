package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A controller that is made otherwise has a queue in which one namespace stands before all others.
func TestEveryControllerIsBegunByInternalKube(t *testing.T) {
	t.Parallel()
	forbidden := map[string]bool{"NewControllerManagedBy": true, "ControllerManagedBy": true, "NewUnmanaged": true, "NewTypedUnmanaged": true, "WithOptions": true}
	begun := 0
	for _, pkg := range list(t) {
		path := strings.TrimPrefix(pkg.ImportPath, module)
		if !within(path, "controller") && !within(path, "cmd") {
			continue
		}
		for _, file := range sources(t, path) {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(parsed, func(n ast.Node) bool {
				if selector, ok := n.(*ast.SelectorExpr); ok {
					require.False(t, forbidden[selector.Sel.Name], "%s uses %s: begin controllers with kube.NewController", file, selector.Sel.Name)
					if selector.Sel.Name == "NewController" {
						begun++
					}
				}
				return true
			})
		}
	}
	require.GreaterOrEqual(t, begun, 6, "too few controllers were found to judge")
}
