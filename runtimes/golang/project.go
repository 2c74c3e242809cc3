package golang

import (
	"cmp"
	"fmt"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

const (
	ownPackage = ownModule + "/runtimes/golang/function"
	goVersion  = "1.26"
	// withoutName is the module of a source without a go.mod.
	withoutName = "handler"
	// crashFile has the package of the handler import the server's before anything of its own is initialised.
	crashFile = "zz_rouse_crash.go"
)

// project makes the source a dependency of a main module of ours. So nothing in its go.mod has a say in the build but what
// is taken over here: which modules it needs, and replacements that stay within the source.
func project(p language.Project) (map[string]string, string) {
	text := p.Read(manifest)
	module, err := parseModule(text)
	if err != nil {
		return nil, fmt.Sprintf("%s cannot be used: %v", p.Manifest, err)
	}
	if module.path == "" {
		module.path = withoutName
		text = "module " + withoutName + "\n\n" + text
	}
	if module.goVersion == "" {
		text += "\ngo " + goVersion + "\n"
	}
	name, problem := packageOf(p, &module)
	if problem != "" {
		return nil, problem
	}
	main, problem := mainModule(p, &module)
	if problem != "" {
		return nil, problem
	}
	files := map[string]string{
		language.SourceDir + "/" + manifest:  text,
		language.SourceDir + "/" + crashFile: fmt.Sprintf("package %s\n\nimport _ %q\n", name, ownPackage+"/crash"),
		language.MainDir + "/" + manifest:    main,
		language.MainDir + "/main.go": fmt.Sprintf(`package main

import (
	server %q
	handler %q
)

func main() { server.Serve(handler.Handle) }
`, ownPackage, module.path),
	}
	if slices.Contains(p.Names, "go.sum") {
		files[language.MainDir+"/go.sum"] = p.Read("go.sum")
	}
	return files, ""
}

// mainModule is the go.mod of the main module.
func mainModule(p language.Project, m *module) (string, string) {
	var text strings.Builder
	fmt.Fprintf(&text, "module rouse.invalid/function\n\ngo %s\n\nrequire (\n\t%s %s\n\t%s v0.0.0\n)\n\n",
		cmp.Or(m.goVersion, goVersion), m.path, version(m.path), ownModule)
	fmt.Fprintf(&text, "replace %s => ../%s\nreplace %s => %s\n", m.path, language.SourceDir, ownModule, strconv.Quote(p.Server))
	for _, each := range m.replaces {
		if each.old == m.path || each.old == ownModule {
			continue
		}
		target, ok := each.target()
		if !ok {
			return "", fmt.Sprintf("%s cannot be used: line %d replaces %s by a folder outside of the source; require a version of it, "+
				"or put the folder into the source", p.Manifest, each.line, each.old)
		}
		fmt.Fprintf(&text, "replace %s %s => %s\n", each.old, each.oldVersion, target)
	}
	return text.String(), ""
}

// packageOf is the name of the handler's package. It is also where an import is refused that no module provides, which the
// compiler would look for in whatever version is the latest.
func packageOf(p language.Project, m *module) (name, problem string) {
	for _, file := range p.Names {
		if strings.EqualFold(path.Ext(file), ".s") {
			return "", file + ": assembly may include any file of the machine that compiles it, so that a source must have none; " +
				"put it into a module of its own and require that"
		}
		if !isCompiled(file) {
			continue
		}
		files := token.NewFileSet()
		parsed, err := parser.ParseFile(files, file, p.Read(file), parser.ImportsOnly)
		if err != nil {
			continue // the compiler says it, if the file counts on this platform
		}
		if file == handlerFile {
			name = parsed.Name.Name
		}
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil || !strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") || m.provides(imported) || inNested(p, file) {
				continue
			}
			return "", fmt.Sprintf("%s:%d: no module in %s provides %s; add it there, such as: require %s v1.2.3",
				file, files.Position(spec.Pos()).Line, p.Manifest, imported, imported)
		}
	}
	return cmp.Or(name, withoutName), ""
}

// isCompiled reports whether a file may belong to a package that the handler imports.
func isCompiled(file string) bool {
	if path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
		return false
	}
	return !slices.ContainsFunc(strings.Split(file, "/"), func(part string) bool {
		return part == "testdata" || part == "vendor" || strings.HasPrefix(part, "_") || strings.HasPrefix(part, ".")
	})
}

// inNested reports whether a file is of another module within the source, which has a go.mod of its own.
func inNested(p language.Project, file string) bool {
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if slices.Contains(p.Names, dir+"/"+manifest) {
			return true
		}
	}
	return false
}
