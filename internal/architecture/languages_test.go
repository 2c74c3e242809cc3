package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rouse-run/rouse/runtimes/languages"
)

// knowsLanguages lists the files outside of runtimes/ that may name a language, with the reason.
var knowsLanguages = map[string]string{
	"api/serverless/v1alpha2/function.go": "the names of runtimes in the API, which a test compares with the list",
	"internal/conversion/runtime.go":      "the runtimes of older Functions, which no language has any more",
	"cli/scaffold/command.go":             "an example in its help",
	"dev/manifest/dotenv.go":              "the variables that the CRD refuses",
	"dev/runner/crash.go":                 "the frames of stack traces, which are read whatever the language",
}

// withoutLanguages lists the folders that may name languages: the languages' own, tests and benchmarks.
var withoutLanguages = []string{"runtimes", "e2e", "internal/testing"}

// Code that compares with one language by its name treats all others alike, including later ones.
func TestOnlyTheFoldersOfLanguagesNameThem(t *testing.T) {
	t.Parallel()
	words := wordsOfLanguages()
	found := map[string]bool{}
	var leaks []string
	root := filepath.Join("..", "..")
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case entry.IsDir() && skips(name, entry.Name()):
			return filepath.SkipDir
		case entry.IsDir(), filepath.Ext(name) != ".go", strings.HasSuffix(name, "_test.go"), strings.HasPrefix(entry.Name(), "zz_generated."):
			return nil
		}
		for _, mention := range mentions(t, path, words) {
			found[name] = true
			if knowsLanguages[name] == "" {
				leaks = append(leaks, mention)
			}
		}
		return nil
	}))
	require.Empty(t, leaks, "ask languages.Of, or describe it in the folder of the language")
	for name := range knowsLanguages {
		require.True(t, found[name], "%s no longer names a language: remove it from the list", name)
	}
}

func skips(name, base string) bool {
	return slices.Contains(withoutLanguages, name) || base == "testdata" || base == "node_modules" ||
		strings.HasPrefix(base, ".") && base != "." && base != ".."
}

// wordsOfLanguages returns the names of runtimes, and the names of languages that are too long to be part of another
// word.
func wordsOfLanguages() []string {
	const shortest = 4
	words := languages.Runtimes()
	for _, each := range languages.All() {
		if len(each.Name) >= shortest {
			words = append(words, each.Name)
		}
	}
	return words
}

// mentions lists the identifiers and literals of a file that contain one of the words.
func mentions(t *testing.T, path string, words []string) []string {
	t.Helper()
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	var found []string
	ast.Inspect(parsed, func(node ast.Node) bool {
		text := ""
		switch node := node.(type) {
		case *ast.Ident:
			text = node.Name
		case *ast.BasicLit:
			text = node.Value
		}
		for _, word := range words {
			if text != "" && strings.Contains(strings.ToLower(text), word) {
				found = append(found, fmt.Sprintf("%s: %.60s", files.Position(node.Pos()), text))
				break
			}
		}
		return true
	})
	return found
}

// A controller that is not begun by internal/kube has a queue in which one namespace can delay all others.
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
