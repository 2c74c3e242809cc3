package nodejs

import (
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

//go:embed kyma.sh
var kymaScript string

// packagesDir is the directory of installed packages.
const packagesDir = "node_modules"

// Language describes Node.js.
func Language() *language.Language {
	return &language.Language{
		Name: "nodejs", Folder: "nodejs", Title: "Node.js", Default: "nodejs22",
		Runtimes: []language.Runtime{
			{Name: "nodejs20", Deprecated: true, NoFIPS: true}, {Name: "nodejs22"}, {Name: "nodejs24"}, {Name: "nodejs26", Modern: true},
		},
		FunctionDir:    "/usr/src/app/function",
		StartVariables: []string{"NODE_", "UV_"},
		Handler:        "handler.js", OtherHandlers: otherHandlers, Check: check,
		Packages: language.PackageManager{
			Program: "npm", Manifest: "package.json", Dir: packagesDir, Settings: ".npmrc",
			Locks:    []string{"package-lock.json", "npm-shrinkwrap.json", ".npmrc"},
			Outward:  regexp.MustCompile(`"(?:file|link):|"workspaces"|"scripts"`),
			Unstable: []string{packagesDir + "/.cache", packagesDir + "/.package-lock.json"},
			Validate: validate, Matters: matters, Needed: needed, Install: install, Classify: classify,
		},
		Bundled: &language.Bundled{
			Entry: entryToBundle, Script: "handler.cjs", Module: "handler.mjs", Manifest: scriptManifest, Aside: aside,
		},
		Local: local(), Ejected: ejected(), Types: language.TypesOf{Name: "typescript", Write: typeScript},
		Kyma: &language.Kyma{
			Script: kymaScript,
			Environment: func(string) []language.Variable {
				return []language.Variable{{Name: "HANDLER_PATH", Value: "./function/handler.js"}}
			},
			Server: "npm start runs in /usr/src/app",
		},
		Scaffold: language.Scaffold{
			Test: "handler.test.js", TestKit: "rouse-testing.js", TestCommand: "node --test", LaunchConfig: "launch-nodejs.json", Typed: typed(),
		},
	}
}

// otherHandlers returns the files that the kind of module and the package name.
func otherHandlers(manifest []byte) []language.Candidate {
	candidates := []language.Candidate{{File: "handler.mjs"}, {File: "handler.cjs"}}
	if main := entryOf(manifest).Main; main != "" {
		candidates = append(candidates, language.Candidate{File: filepath.Clean(main), NamedBy: "main in package.json"})
	}
	return candidates
}

// entry contains the fields of a package.json about its own files. npm reports a malformed one.
type entry struct {
	Main string `json:"main"`
	Type string `json:"type"`
}

func entryOf(manifest []byte) entry {
	var parsed entry
	_ = json.Unmarshal(manifest, &parsed)
	return parsed
}

func typed() *language.TypedScaffold {
	return &language.TypedScaffold{
		Handler: "handler.ts", Test: "handler.test.ts", TestCommand: "node --test handler.test.ts",
		Files: []string{"package.json", "tsconfig.json"}, Others: []string{"rouse.d.ts", ".rouseignore"},
	}
}

// entryToBundle returns the handler in TypeScript. A script beside it takes precedence: repositories may have what they
// have compiled themselves.
func entryToBundle(has func(name string) bool, manifest []byte) (entry, problem string) {
	if slices.ContainsFunc([]string{"handler.js", "handler.mjs", "handler.cjs"}, has) {
		return "", ""
	}
	var found []string
	for _, name := range []string{"handler.ts", "handler.mts", "handler.cts"} {
		if has(name) {
			found = append(found, name)
		}
	}
	main := entryOf(manifest).Main
	switch {
	case len(found) > 1:
		return "", strings.Join(found, " and ") + " are handlers: keep one, and remove or rename the others"
	case len(found) == 1:
		return found[0], ""
	case has("handler.tsx"):
		return "", "handler.tsx: a handler cannot be TSX; name it handler.ts, and import other files that are"
	case !isTypeScript(main):
		return "", ""
	}
	if main = filepath.Clean(main); filepath.IsLocal(main) && has(main) {
		return main, ""
	}
	return "", "main in package.json names " + main + ", which is not in the Function's source"
}

// scriptManifest leaves out what is about the files that the script replaces.
func scriptManifest(manifest string) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(manifest), &fields) != nil {
		return manifest // npm reports it
	}
	for _, name := range []string{"type", "main", "imports", "exports"} {
		delete(fields, name)
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return manifest
	}
	return string(text)
}

// asideNames matches files that handlers do not read.
var asideNames = regexp.MustCompile(`(?:^|/)(?:package(?:-lock)?\.json|npm-shrinkwrap\.json|[jt]sconfig.*\.json|eslint\.config\.[cm]?[jt]s|.*\.d\.[cm]?ts|` +
	`.*\.(?:test|spec)\.[cm]?[jt]sx?|rouse-testing\.js|[^/]+\.md|LICENSE)$`)

func aside(name string) bool { return asideNames.MatchString(name) }

func isTypeScript(name string) bool {
	return slices.Contains([]string{".ts", ".mts", ".cts"}, filepath.Ext(name))
}

// compileScript compiles a source from its standard input as CommonJS. `node --check` accepts everything that might be
// an ES module.
const compileScript = `
const file = process.argv[1];
const source = require('node:fs').readFileSync(0, 'utf8').replace(/^#!.*/, '');
try {
  require('node:vm').compileFunction(source, ['exports', 'require', 'module', '__filename', '__dirname'], { filename: file });
} catch (error) {
  console.error(error.stack);
  process.exitCode = 3;
}`

// moduleWords matches messages of CommonJS's parser about parts of an ES module.
var moduleWords = regexp.MustCompile(`(?i)\b(import|export|module|await)\b`)

// check compiles a source as the kind of module that Node.js would load it as.
func check(source language.Source, compiler language.Compiler) string {
	module := entryOf(source.Manifest).Type
	switch filepath.Ext(source.File) {
	case ".mjs":
		module = "module"
	case ".cjs":
		module = "commonjs"
	}
	if module != "module" {
		message := compiler("node", "-e", compileScript, "--", source.File)
		if message == "" || module == "commonjs" || !moduleWords.MatchString(language.LastLine(message)) {
			return message
		}
	}
	return compiler("node", "--input-type=module", "--check")
}

const probe = `console.log(JSON.stringify([process.execPath, process.versions.node, process.versions.v8 + process.arch]))`

func local() language.Local {
	return language.Local{
		Program: "node", Flag: "node", Probe: []string{"-e", probe}, Least: [2]int{20, 19},
		Remedy:       "install Node.js 20.19 or newer with npm, from https://nodejs.org or your system's packages",
		VersionParts: 1, Manager: "npm",
		ManagerRemedy: "npm comes with Node.js", TrustVariable: "NODE_EXTRA_CA_CERTS",
		// Entry is the same as in the runtime's image.
		Entry: func(server string) []string {
			return []string{
				"--disable-warning=MODULE_TYPELESS_PACKAGE_JSON", "--disable-warning=ExperimentalWarning", filepath.Join(server, "server.js"),
			}
		},
		Environment: []language.Variable{{Name: "NODE_ENV", Value: "production"}},
		// Node.js 22 is the first version that reads extra certificates when a handler needs them, rather than at every
		// start, of which they take half on a machine that lists all of its certificates there.
		SlowBefore: map[string]int{"NODE_EXTRA_CA_CERTS": 22},
		// Node.js also searches folders above a file for modules.
		ServerPackages: packagesDir,
		// The server's own timers run on the event loop that handlers share.
		Watched: true,
		Debugger: language.Debugger{
			Port: 9229,
			Args: func(address, _ string, entry []string) []string {
				return append([]string{"--inspect=" + address, "--enable-source-maps"}, entry...)
			},
			Map: mapSource,
		},
	}
}

// mapSource adds a source map.
func mapSource(source, origin string, line int) (string, error) {
	text, err := json.Marshal(map[string]any{
		"version": 3, "sources": []string{"file://" + origin}, "names": []string{},
		// The first line has an absolute number, each other one is relative to the line before.
		"mappings": "AA" + variableLength(line-1) + "A" + strings.Repeat(";AACA", strings.Count(source, "\n")),
	})
	return fmt.Sprintf("%s\n//# sourceMappingURL=data:application/json;base64,%s\n", source, base64.StdEncoding.EncodeToString(text)), err
}

// variableLength encodes a non-negative number as in source maps.
func variableLength(number int) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	var text strings.Builder
	for rest := number << 1; ; {
		digit := rest & 31
		if rest >>= 5; rest > 0 {
			digit |= 32
		}
		text.WriteByte(digits[digit])
		if rest == 0 {
			return text.String()
		}
	}
}
