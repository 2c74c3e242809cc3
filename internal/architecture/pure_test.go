package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// impure are packages that a pure one does not import, with what lies below them, and of others what it does not use.
var impure = struct {
	imports []string
	uses    map[string][]string
}{
	imports: []string{
		"context", "crypto/rand", "log", "math/rand", "net", "os", "syscall",
		"github.com/go-logr/logr",
		"k8s.io/client-go/kubernetes", "k8s.io/client-go/rest", "k8s.io/client-go/tools", "sigs.k8s.io/controller-runtime",
	},
	uses: map[string][]string{
		"http": {"Client", "DefaultClient", "DefaultTransport", "Get", "Head", "ListenAndServe", "Post", "PostForm", "Server", "Transport"},
		"time": {"Now", "Since", "Until", "After", "AfterFunc", "Sleep", "Tick", "NewTimer", "NewTicker"},
	},
}

// mayImport are packages below impure ones that also have types to compute with.
var mayImport = []string{"net/http", "net/netip", "net/url"}

func TestPurePackagesUseNoClockContextFileNetworkOrLog(t *testing.T) {
	t.Parallel()
	table, found := rules(t), 0
	for _, pkg := range list(t) {
		path := strings.TrimPrefix(pkg.ImportPath, module)
		if _, row := ruleOf(table, path); !row.pure {
			continue
		}
		found++
		for _, file := range sources(t, path) {
			requirePure(t, file)
		}
	}
	require.Greater(t, found, 5, "the table has too few pure packages to judge")
}

func sources(t *testing.T, path string) []string {
	t.Helper()
	files, err := filepath.Glob("../../" + path + "/*.go")
	require.NoError(t, err)
	return slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, "_test.go") })
}

func requirePure(t *testing.T, file string) {
	t.Helper()
	const isPure = "%s uses %s, and docs/architecture.md calls its folder pure"
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	require.NoError(t, err)
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		require.NoError(t, err)
		forbidden := slices.ContainsFunc(impure.imports, func(i string) bool { return within(imported, i) })
		require.False(t, forbidden && !slices.Contains(mayImport, imported), isPure, file, imported)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if name, ok := selector.X.(*ast.Ident); ok {
				require.NotContains(t, impure.uses[name.Name], selector.Sel.Name, isPure, file, name.Name+"."+selector.Sel.Name)
			}
		}
		return true
	})
}
