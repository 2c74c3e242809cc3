package nodejs

import (
	_ "embed"
	"encoding/json"
	"path/filepath"
	"regexp"

	"github.com/rouse-run/rouse/runtimes/language"
)

//go:embed kyma.sh
var kymaScript string

// packagesDir is where npm installs.
const packagesDir = "node_modules"

// Language describes Node.js.
func Language() *language.Language {
	return &language.Language{
		Name: "nodejs", Folder: "nodejs", Title: "Node.js", Default: "nodejs22",
		Runtimes: []language.Runtime{
			{Name: "nodejs20", Deprecated: true, NoFIPS: true}, {Name: "nodejs22"}, {Name: "nodejs24"}, {Name: "nodejs26", Modern: true},
		},
		FunctionDir: "/usr/src/app/function",
		Handler:     "handler.js", OtherHandlers: otherHandlers, Check: check,
		Packages: language.PackageManager{
			Program: "npm", Manifest: "package.json", Dir: packagesDir, Settings: ".npmrc",
			Locks:    []string{"package-lock.json", "npm-shrinkwrap.json", ".npmrc"},
			Outward:  regexp.MustCompile(`"(?:file|link):|"workspaces"|"scripts"`),
			Unstable: []string{packagesDir + "/.cache", packagesDir + "/.package-lock.json"},
			Validate: validate, Matters: matters, Needed: needed, Install: install, Classify: classify,
		},
		Local: local(),
		Kyma: &language.Kyma{
			Script: kymaScript,
			Environment: func(string) []language.Variable {
				return []language.Variable{{Name: "HANDLER_PATH", Value: "./function/handler.js"}}
			},
			Server: "npm start runs in /usr/src/app",
		},
		Scaffold: language.Scaffold{Test: "handler.test.js", TestCommand: "node --test", LaunchConfig: "launch-nodejs.json"},
	}
}

// otherHandlers are named by the kind of module, and by the package.
func otherHandlers(manifest []byte) []language.Candidate {
	candidates := []language.Candidate{{File: "handler.mjs"}, {File: "handler.cjs"}}
	if main := entryOf(manifest).Main; main != "" {
		candidates = append(candidates, language.Candidate{File: filepath.Clean(main), NamedBy: "main in package.json"})
	}
	return candidates
}

// entry is what a package.json says about its own files. What cannot be read is npm's to report.
type entry struct {
	Main string `json:"main"`
	Type string `json:"type"`
}

func entryOf(manifest []byte) entry {
	var parsed entry
	_ = json.Unmarshal(manifest, &parsed)
	return parsed
}
