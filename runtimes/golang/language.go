package golang

import (
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
		// Telemetry would have each build leave a process behind, which goes on writing into its HOME.
		BuildHome: map[string]string{".config/go/telemetry/mode": "off"},
		Handler:   handlerFile, Check: check,
		Packages: language.PackageManager{
			Program: "go", Manifest: manifest, Settings: "go.env", Locks: []string{"go.sum"},
			Matters: func(manifest string) bool { return strings.TrimSpace(manifest) != "" },
			// The compiler fetches the modules that it needs.
			Needed:   func([]byte) bool { return false },
			Validate: validate, Classify: classify,
		},
		Compiled: &language.Compiled{Binary: binary, ServerDir: serverDir, ObjectsDir: "cache", Project: project, Build: compile},
		Local:    local(),
		Scaffold: language.Scaffold{Test: "handler_test.go", TestCommand: "go test handler.go handler_test.go"},
	}
}

// compile starts the compiler. Whatever the settings of a machine or of private modules say, no other toolchain is fetched,
// no version control runs, no C is compiled, and no flag of theirs counts.
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
