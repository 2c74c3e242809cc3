package main

import (
	"context"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// scope lists the folders of packages, relative to the repository, to lint and to test for a change.
type scope struct{ lint, test []string }

// pkg is a package as `go list` describes it.
type pkg struct {
	ImportPath, Dir                              string
	GoFiles, CgoFiles, TestGoFiles, XTestGoFiles []string
	EmbedFiles                                   []string
	Imports, TestImports, XTestImports           []string
	folder                                       string
	reads, testReads                             []string // paths in other folders that its code and its tests refer to
}

// readTheTree lists packages whose tests read files in all folders.
var readTheTree = []string{"docs", "internal/architecture"}

// everything lists files whose change affects every package of their module.
var everything = []string{"go.mod", "go.sum"}

func list(ctx context.Context, dir string, patterns ...string) ([]*pkg, error) {
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	text, err := output(ctx, dir, slices.Concat([]string{"go", "list", "-e", "-json=ImportPath,Dir,GoFiles,CgoFiles,EmbedFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports"}, patterns)...)
	if err != nil {
		return nil, err
	}
	var packages []*pkg
	for decoder := json.NewDecoder(strings.NewReader(text)); ; {
		one := &pkg{}
		if err := decoder.Decode(one); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages = append(packages, one)
	}
}

// decide selects the packages of a module for the changed files: the packages of the files, all importers of packages
// with changed code, and the packages that refer to a changed file.
func decide(packages []*pkg, dir string, files []string) scope {
	changed, lint, test := map[string]bool{}, map[string]bool{}, map[string]bool{} // by import path
	for _, file := range files {
		if file == ".golangci.yml" {
			mark(packages, lint, func(*pkg) bool { return true })
		}
		if slices.Contains(everything, path.Base(file)) && path.Dir(file) == dir {
			mark(packages, lint, func(*pkg) bool { return true })
			mark(packages, changed, func(*pkg) bool { return true })
		}
		owner := ownerOf(packages, file)
		mark(packages, lint, func(p *pkg) bool { return p == owner && path.Ext(file) == ".go" })
		mark(packages, changed, func(p *pkg) bool { return p == owner && p.compiles(file) || names(p.reads, file) })
		mark(packages, test, func(p *pkg) bool {
			return p == owner || names(p.testReads, file) || slices.Contains(readTheTree, p.folder)
		})
	}
	spread(packages, changed, test)
	hasTests := func(p *pkg) bool { return test[p.ImportPath] && len(p.TestGoFiles)+len(p.XTestGoFiles) > 0 }
	return scope{folders(packages, func(p *pkg) bool { return lint[p.ImportPath] }), folders(packages, hasTests)}
}

func mark(packages []*pkg, set map[string]bool, fits func(*pkg) bool) {
	for _, p := range packages {
		if fits(p) {
			set[p.ImportPath] = true
		}
	}
}

func folders(packages []*pkg, fits func(*pkg) bool) []string {
	var found []string
	for _, p := range packages {
		if fits(p) {
			found = append(found, p.folder)
		}
	}
	return found
}

// spread adds to test the changed packages and all that import them, directly or indirectly, including only in tests.
func spread(packages []*pkg, changed, test map[string]bool) {
	isChanged := func(imported string) bool { return changed[imported] }
	for again := true; again; {
		again = false
		for _, p := range packages {
			if !changed[p.ImportPath] && slices.ContainsFunc(p.Imports, isChanged) {
				changed[p.ImportPath], again = true, true
			}
		}
	}
	for _, p := range packages {
		if changed[p.ImportPath] || slices.ContainsFunc(slices.Concat(p.TestImports, p.XTestImports), isChanged) {
			test[p.ImportPath] = true
		}
	}
}

// ownerOf returns the package of a file's folder, or of the nearest folder above it.
func ownerOf(packages []*pkg, file string) *pkg {
	for folder := path.Dir(file); ; folder = path.Dir(folder) {
		for _, p := range packages {
			if p.folder == folder {
				return p
			}
		}
		if folder == "." {
			return nil
		}
	}
}

// compiles reports whether a file in the package's folder is part of its code, or embedded.
func (p *pkg) compiles(file string) bool {
	if path.Ext(file) == ".go" {
		return !strings.HasSuffix(file, "_test.go")
	}
	inside, ok := strings.CutPrefix(file, p.folder+"/")
	return ok && slices.Contains(p.EmbedFiles, inside)
}

// names reports whether a reference is the file or a folder that contains it.
func names(references []string, file string) bool {
	return slices.ContainsFunc(references, func(reference string) bool {
		return reference == file || strings.HasPrefix(file, reference+"/")
	})
}

// readReferences collects the paths that begin with ".." in literals of the package's files.
func (p *pkg) readReferences() {
	for _, group := range []struct {
		files []string
		into  *[]string
	}{{slices.Concat(p.GoFiles, p.CgoFiles), &p.reads}, {slices.Concat(p.TestGoFiles, p.XTestGoFiles), &p.testReads}} {
		for _, file := range group.files {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				continue // the linter and the compiler report it
			}
			for _, reference := range references(parsed) {
				if target := path.Join(p.folder, reference); target != "." && !strings.HasPrefix(target, "..") {
					*group.into = append(*group.into, target)
				}
			}
		}
	}
}

// references lists literals such as "../samples/orders" and joined ones such as filepath.Join("..", "samples"), up to
// the first part that is not a literal or is a pattern.
func references(file *ast.File) []string {
	var found []string
	add := func(reference string) {
		if fixed, _, pattern := strings.Cut(reference, "*"); pattern {
			reference = path.Dir(fixed)
		}
		if strings.HasPrefix(reference, "..") && strings.Trim(reference, "./") != "" {
			found = append(found, reference)
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.BasicLit:
			add(text(node))
		case *ast.CallExpr:
			var parts []string
			for _, argument := range node.Args {
				part := text(argument)
				if part == "" {
					break
				}
				parts = append(parts, part)
			}
			add(path.Join(parts...))
		}
		return true
	})
	return found
}

// text returns the value of a string literal, or an empty string.
func text(expression ast.Expr) string {
	literal, ok := expression.(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return ""
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		return ""
	}
	return value
}
