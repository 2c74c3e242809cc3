package python

import (
	_ "embed"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

//go:embed kyma.sh
var kymaScript string

const (
	// functionDir is Kyma's.
	functionDir = "/kubeless"
	// packagesDir is where pip installs, flat; the runtime puts it on sys.path.
	packagesDir = ".local"
	// flatHandler is the runtime whose image of Kyma's contract reads another variable than the later ones.
	flatHandler = "python312"
)

// Language describes Python.
func Language() *language.Language {
	return &language.Language{
		Name: "python", Folder: "python", Title: "Python", Default: "python312",
		Runtimes:    []language.Runtime{{Name: "python312", NoFIPS: true}, {Name: "python314", Modern: true}},
		FunctionDir: functionDir,
		Environment: []language.Variable{
			{Name: "PYTHONUNBUFFERED", Value: "TRUE"}, {Name: "MOD_NAME", Value: "handler"}, {Name: "FUNC_HANDLER", Value: "main"},
		},
		// The order of hashes decides the order of sets in bytecode.
		BuildEnvironment: []string{"PYTHONHASHSEED=0"},
		Handler:          "handler.py", Check: check,
		Packages: language.PackageManager{
			Program: "python3", Manifest: "requirements.txt", Dir: packagesDir, Settings: "pip.conf",
			Outward: regexp.MustCompile(`(?m)^\s*(?:-[rce]\b|--(?:requirement|constraint|editable)\b|\.{0,2}/|[^#\n]*\bfile:)|(?m)^\s*\.\s*$`),
			Matters: matters, Install: install, Classify: classify,
		},
		Bytecode: &language.Bytecode{Extension: ".py", Compile: func(dir, final string, files []string) []string {
			return append([]string{
				"python3", "-m", "compileall", "-q", "-q", "--invalidation-mode", "unchecked-hash", "-s", dir, "-p", final,
			}, files...)
		}},
		Local: local(),
		Kyma: &language.Kyma{
			Script: kymaScript, Environment: kymaEnvironment, WritableDir: "/.local", Server: "is /server.py or /kubeless.py",
		},
		Scaffold: language.Scaffold{Test: "test_handler.py", TestCommand: "python3 -m unittest", LaunchConfig: "launch-python.json"},
	}
}

func kymaEnvironment(runtime string) []language.Variable {
	if runtime == flatHandler {
		return []language.Variable{{Name: "FUNCTION_PATH", Value: functionDir}}
	}
	return []language.Variable{{Name: "HANDLER_PATH", Value: functionDir}}
}

// compileScript compiles a source from its standard input and writes nothing. Its own frames would only stand before the
// message.
const compileScript = `
import sys, traceback
try:
    compile(sys.stdin.buffer.read(), sys.argv[1], "exec", dont_inherit=True)
except (SyntaxError, ValueError) as error:
    sys.stderr.writelines(traceback.format_exception_only(type(error), error))
    sys.exit(3)`

func check(source language.Source, compiler language.Compiler) string {
	return compiler("python3", "-I", "-c", compileScript, source.File)
}

func matters(manifest string) bool {
	for line := range strings.Lines(manifest) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return true
		}
	}
	return false
}

// install installs flat, below one directory.
func install(i language.Installation) language.Command {
	log := filepath.Join(i.Work, "pip.log")
	line := []string{
		i.Program, "-I", "-m", "pip", "install", "--target", filepath.Join(i.Dir, packagesDir), "--no-compile", "--no-input",
		"--disable-pip-version-check", "--progress-bar", "off", "--root-user-action", "ignore", "--no-warn-script-location",
		"--retries", "2", "--log", log,
	}
	switch {
	case i.Discard:
		line = append(line, "--no-cache-dir")
	case i.Cache != "":
		line = append(line, "--cache-dir", filepath.Join(i.Cache, "pip"))
	}
	var env []string
	if i.Settings != "" {
		env = []string{"PIP_CONFIG_FILE=" + i.Settings}
	}
	return language.Command{Line: append(line, "-r", "requirements.txt"), Env: env, Log: log}
}
