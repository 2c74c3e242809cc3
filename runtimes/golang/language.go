package golang

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

const (
	functionDir = "/function"
	serverDir   = "/usr/src/app"
	binary      = "server"
	handlerFile = "handler.go"
	manifest    = "go.mod"
)

// Language describes Go.
func Language() *language.Language {
	return &language.Language{
		Name: "go", Folder: "golang", Title: "Go", Default: "go126",
		Runtimes:    []language.Runtime{{Name: "go126", Modern: true}},
		FunctionDir: functionDir,
		// Telemetry would leave a process behind after each build, which continues to write into its HOME.
		BuildHome: map[string]string{".config/go/telemetry/mode": "off"},
		Handler:   handlerFile, Check: check,
		Packages: language.PackageManager{
			Program: "go", Manifest: manifest, Settings: "go.env", Locks: []string{"go.sum"},
			Matters: func(manifest string) bool { return strings.TrimSpace(manifest) != "" },
			// The compiler fetches the required modules.
			Needed:   func([]byte) bool { return false },
			Validate: validate, Classify: classify,
		},
		Compiled: &language.Compiled{Binary: binary, ServerDir: serverDir, ObjectsDir: "cache", Project: project, Build: compile},
		Local:    local(), Ejected: ejected(),
		Scaffold: language.Scaffold{Test: "handler_test.go", TestCommand: "go test handler.go handler_test.go"},
	}
}

// compile returns the command of the compiler. Regardless of the settings of a machine or of private modules, no other
// toolchain is fetched, no version control is run, no C is compiled, and their flags are ignored.
func compile(c language.Compilation) language.Command {
	env := []string{
		"GOTOOLCHAIN=local", "GOVCS=*:off", "GOWORK=off", "GO111MODULE=on", "CGO_ENABLED=0", "GOFLAGS=-mod=mod",
		"GOAUTH=netrc",
	}
	if c.Modules != "" {
		env = append(env, "GOPATH="+c.Modules, "GOMODCACHE="+c.Modules+"/pkg/mod")
	}
	if c.Objects != "" {
		env = append(env, "GOCACHE="+c.Objects)
	}
	if c.Settings != "" {
		env = append(env, "GOENV="+c.Settings)
	}
	return language.Command{
		Line: []string{
			c.Program, "build", "-trimpath", "-buildvcs=false", "-modcacherw", "-ldflags=-s -w", "-o", c.Binary, ".",
		},
		Env: env,
	}
}

var numbers = regexp.MustCompile(`\d+\.\d+(?:\.\d+)?`)

func local() language.Local {
	return language.Local{
		Program: "go", Flag: "go", Probe: []string{"env", "GOROOT", "GOVERSION", "GOARCH"}, ReadProbe: readProbe,
		Least:        [2]int{1, 26},
		Remedy:       "install Go 1.26 or newer, from https://go.dev/dl or your system's packages",
		VersionParts: 2, LayerKnowsItsPlace: true,
		ManagerRemedy: "it is the go command itself", TrustVariable: "SSL_CERT_FILE",
	}
}

// readProbe parses the program's path below GOROOT, bypassing the scripts of version managers.
func readProbe(output string) (path, version, made string) {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	if len(lines) < 3 {
		return "", "", ""
	}
	lines = lines[len(lines)-3:]
	return strings.TrimSpace(lines[0]) + "/bin/go", numbers.FindString(lines[1]), lines[1] + lines[2]
}

const shapes = "write one of: func Handle(w http.ResponseWriter, r *http.Request), " +
	"func Handle(ctx context.Context, event function.Event) error, or with (any, error), (*function.Event, error) or " +
	"(*function.Response, error) in place of error"

// check parses the handler. The compiler reports type errors.
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

// parseError returns the first errors of the parser.
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

const (
	ownPackage = ownModule + "/runtimes/golang/function"
	goVersion  = "1.26"
	// withoutName is the module path of a source without a go.mod.
	withoutName = "handler"
	// crashFile makes the handler's package import the server's crash package, which is initialised first.
	crashFile = "zz_rouse_crash.go"
)

// project makes the source a dependency of a generated main module. So its go.mod affects the build only by the
// directives that are copied here: the required modules, and replacements within the source.
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

// mainModule returns the go.mod of the main module.
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

// packageOf returns the name of the handler's package. It also rejects an import that no required module provides, for
// which the compiler would otherwise search the latest version.
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
			continue // the compiler reports it, if the file is used on this platform
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

// inNested reports whether a file belongs to a nested module of the source, with its own go.mod.
func inNested(p language.Project, file string) bool {
	for dir := path.Dir(file); dir != "."; dir = path.Dir(dir) {
		if slices.Contains(p.Names, dir+"/"+manifest) {
			return true
		}
	}
	return false
}

var (
	goUnknown   = regexp.MustCompile(`(?m)^\s*(?:go: )?(?:\S+:\d+:\d+: )?(\S+@\S+): (?:reading \S+: 404|invalid version: unknown revision|.*404 Not Found)`)
	goNoPackage = regexp.MustCompile(`(?:cannot find module providing package|no required module provides package|does not contain package) ([^\s:;,]+)`)
	goForbidden = regexp.MustCompile(`(?m)reading (\S+): (40[137] [^\n]*)`)
	goNetwork   = regexp.MustCompile(`(?m)(dial tcp[^\n]*|i/o timeout|TLS handshake timeout|connection reset[^\n]*|unexpected EOF|\b(?:5\d\d|429) [A-Z][^\n]*)`)
	goDistrust  = regexp.MustCompile(`x509: |certificate signed by unknown authority`)
	goParse     = regexp.MustCompile(`(?m)(?:errors parsing|parsing) [^\n]*go\.mod:\n?([^\n]*)`)
	goTooNew    = regexp.MustCompile(`(?m)((?:requires|go\.mod requires) go >= [\w.]+) \(running go ([\w.]+)`)
	goSum       = regexp.MustCompile(`checksum mismatch|SECURITY ERROR`)
	goVCS       = regexp.MustCompile(`GOVCS disallows using \w+ for (?:public|private) ([^\s;]+)`)
	goDisabled  = regexp.MustCompile(`module lookup disabled by GOPROXY=off`)
	goSource    = regexp.MustCompile(`(?m)^(?:vet: )?\.\./source/([^\n]+:\d+:\d+: [^\n]+)$`)
	goFetched   = regexp.MustCompile(`: \S+@v\S+: |: reading |dial tcp|no required module|cannot find module|does not contain package|GOVCS|GOPROXY=off|: verifying `)
	goSignature = regexp.MustCompile(`(?m)^\./main\.go:\d+:\d+: ((?:func|[\w.]+)[^\n]* does not satisfy )`)
	goHandler   = regexp.MustCompile(`(?m)^\./main\.go:\d+:\d+: ([^\n]+)$`)
	goSymbol    = regexp.MustCompile(`(?m)^(?:go: |link: |#)?([^\n]*(?:missing function body|relocation target [^\n]+ not defined)[^\n]*)$`)
)

const mostLines = 10

// classify classifies the failure of the compiler, which fetches modules as well.
func classify(f language.Failed) (language.Reason, string) {
	output := f.Output
	if reason, message := classifySource(f); reason != "" {
		return reason, message
	}
	switch {
	case goSum.MatchString(output):
		return language.InstallFailed, "a module is not what its checksum says; correct go.sum, and find out who changed the module"
	case goVCS.MatchString(output):
		return language.PackageForbidden, fmt.Sprintf("module %s would come from a repository, and builds fetch modules from a proxy alone; "+
			"name a proxy that has it in GOPROXY of go.env: %s", language.Match(goVCS, output), f.Site.Credentials)
	case strings.Contains(output, "refusing to pass credentials to insecure URL"):
		return language.PackageForbidden, "GOPROXY of go.env has a password for a proxy by http, which would be sent as it is; name the proxy by https"
	case goDisabled.MatchString(output):
		return language.PackagesUnreachable, "GOPROXY is off, and a module is needed; name a module proxy in it"
	case goForbidden.MatchString(output):
		groups := goForbidden.FindStringSubmatch(output)
		return language.PackageForbidden, fmt.Sprintf("the module proxy refuses access to %s: %s; %s", groups[1], groups[2], f.Site.Credentials)
	case goUnknown.MatchString(output):
		return language.PackageNotFound, fmt.Sprintf("there is no %s; correct %s or, if it is private, %s",
			language.Match(goUnknown, output), f.Manifest, f.Site.Credentials)
	case goDistrust.MatchString(output):
		return language.PackagesUnreachable, "the certificate of the module proxy is not trusted; " + f.Site.Trust
	case goNetwork.MatchString(output):
		return language.PackagesUnreachable, fmt.Sprintf("the module proxy does not answer (%s); %s", language.Match(goNetwork, output), f.Site.Later)
	case goNoPackage.MatchString(output):
		return language.PackageNotFound, fmt.Sprintf("no module in %s provides package %s; correct the import, or require a version that has it",
			f.Manifest, language.Match(goNoPackage, output))
	}
	return language.SourceInvalid, "go build failed: " + renamed(language.LastLine(output))
}

// classifySource classifies errors in the user's source.
func classifySource(f language.Failed) (language.Reason, string) {
	output := f.Output
	if groups := goTooNew.FindStringSubmatch(output); groups != nil {
		return language.InvalidDependencies, fmt.Sprintf("%s, or a module that it needs, %s, and the runtime has %s; take older versions",
			f.Manifest, groups[1], groups[2])
	}
	if goParse.MatchString(output) {
		return language.InvalidDependencies, fmt.Sprintf("%s cannot be used: %s", f.Manifest, renamed(language.Match(goParse, output)))
	}
	if goSignature.MatchString(output) {
		shape := strings.TrimSuffix(language.Match(goSignature, output), " does not satisfy")
		return language.SourceInvalid, fmt.Sprintf("%s: Handle is a %s; %s", handlerFile, shape, shapes)
	}
	var lines []string
	for _, match := range goSource.FindAllStringSubmatch(output, mostLines) {
		if !goFetched.MatchString(match[1]) {
			lines = append(lines, match[1])
		}
	}
	if len(lines) > 0 {
		return language.SourceInvalid, "the source does not compile:\n" + strings.Join(lines, "\n")
	}
	if message := language.Match(goHandler, output); message != "" {
		return language.SourceInvalid, handlerFile + ": " + message + "; " + shapes
	}
	if message := language.Match(goSymbol, output); message != "" {
		return language.SourceInvalid, "the source does not compile: " + renamed(message)
	}
	return "", ""
}

// renamed replaces file names by the user's.
func renamed(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "../source/", "")
}
