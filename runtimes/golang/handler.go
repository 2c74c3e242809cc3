package golang

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"strconv"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

const shapes = "write one of: func Handle(w http.ResponseWriter, r *http.Request), " +
	"func Handle(ctx context.Context, event function.Event) error, or with (any, error), (*function.Event, error) or " +
	"(*function.Response, error) in place of error"

// check parses the handler. What only types show, the compiler says.
func check(source language.Source, _ language.Compiler) string {
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, source.File, source.Text, parser.SkipObjectResolution)
	if err != nil {
		return parseError(err)
	}
	at := func(pos token.Pos) string { return source.File + ":" + strconv.Itoa(files.Position(pos).Line) + ": " }
	if parsed.Name.Name == "main" {
		return at(parsed.Name.Pos()) + "the package must not be main, which the build adds; write package handler"
	}
	for _, declared := range parsed.Decls {
		function, ok := declared.(*ast.FuncDecl)
		if !ok || function.Recv != nil || function.Name.Name != "Handle" {
			continue
		}
		if function.Type.TypeParams != nil {
			return at(function.Pos()) + "Handle must have no type parameters; " + shapes
		}
		return ""
	}
	return "there is no func Handle in " + source.File + "; " + shapes
}

// parseError is the first few of the parser's errors.
func parseError(err error) string {
	const most = 5
	var list scanner.ErrorList
	if !errors.As(err, &list) {
		return err.Error()
	}
	lines := make([]string, 0, most)
	for _, each := range list[:min(len(list), most)] {
		lines = append(lines, each.Error())
	}
	return strings.Join(lines, "\n")
}
