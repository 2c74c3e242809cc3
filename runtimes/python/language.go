package python

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

//go:embed kyma.sh
var kymaScript string

const (
	// functionDir is the same as Kyma's.
	functionDir = "/kubeless"
	// packagesDir is the flat directory of installed packages; the runtime adds it to sys.path.
	packagesDir = ".local"
	// flatHandler is the runtime whose image of Kyma's contract reads a different variable than the later ones.
	flatHandler = "python312"
)

// Language describes Python.
func Language() *language.Language {
	return &language.Language{
		Name: "python", Folder: "python", Title: "Python", Default: "python312",
		Runtimes:       []language.Runtime{{Name: "python312", NoFIPS: true}, {Name: "python314", Modern: true}},
		FunctionDir:    functionDir,
		StartVariables: []string{"PYTHON"},
		Environment: []language.Variable{
			{Name: "PYTHONUNBUFFERED", Value: "TRUE"}, {Name: "MOD_NAME", Value: "handler"}, {Name: "FUNC_HANDLER", Value: "main"},
		},
		// The order of hashes determines the order of sets in bytecode.
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
		Packed: packed,
		Local:  local(), Ejected: ejected(), Types: language.TypesOf{Name: "python", Write: typedDicts},
		Kyma: &language.Kyma{
			Script: kymaScript, Environment: kymaEnvironment, WritableDir: "/.local", Server: "is /server.py or /kubeless.py",
		},
		Scaffold: language.Scaffold{
			Test: "test_handler.py", TestKit: "rouse_testing.py", TestCommand: "python3 -m unittest", LaunchConfig: "launch-python.json",
		},
	}
}

func kymaEnvironment(runtime string) []language.Variable {
	if runtime == flatHandler {
		return []language.Variable{{Name: "FUNCTION_PATH", Value: functionDir}}
	}
	return []language.Variable{{Name: "HANDLER_PATH", Value: functionDir}}
}

// compileScript compiles a source from its standard input without writing files. Its own frames would only precede the
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

// install installs into a flat directory.
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

const probe = `import json, sys, sysconfig
print(json.dumps([sys.executable, "%d.%d.%d" % sys.version_info[:3], sys.version + sysconfig.get_platform()]))`

// versioned returns the program with a runtime's version in its name. It must have pip; otherwise python3 is used.
func versioned(runtime string) (program string, probing []string) {
	return "python3." + strings.TrimPrefix(runtime, "python3"), []string{"-I", "-c", "import pip\n" + probe}
}

//go:embed debug.py
var debugScript string

const debugFile = "debug.py"

func local() language.Local {
	return language.Local{
		Program: "python3", Flag: "python", Probe: []string{"-I", "-c", probe}, Least: [2]int{3, 11}, Versioned: versioned,
		Remedy:        "install Python 3.11 or newer with pip, from https://www.python.org or your system's packages (python3 and python3-pip)",
		VersionParts:  2,
		ManagerRemedy: "pip is the package python3-pip of Debian and Ubuntu", TrustVariable: "PIP_CERT",
		// Entry is the same as in the runtime's image, plus -S: this machine's packages, which are not in the image,
		// must not be found, and searching for them would slow down every start.
		Entry:              func(server string) []string { return []string{"-P", "-s", "-S", filepath.Join(server, "main.py")} },
		LayerKnowsItsPlace: true,
		Environment: []language.Variable{
			{Name: "PYTHONUNBUFFERED", Value: "TRUE"},
			{Name: "PYTHONDONTWRITEBYTECODE", Value: "1"},
			// All Functions share a laptop's cores; a second process would only delay the first start.
			{Name: "SERVER_PROCESSES", Value: "1"},
		},
		Bytecode: func(dir, final string) []string {
			return []string{
				"-I", "-m", "compileall", "-q", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash", "-s", dir, "-p", final, packagesDir,
			}
		},
		Debugger: language.Debugger{
			Port: 5678, Name: "debugpy", Manifest: "debugpy>=1.8,<2\n", Script: debugScript, ScriptFile: debugFile,
			Args: debugArgs, Map: mapSource,
		},
	}
}

func debugArgs(address, installed string, entry []string) []string {
	flags, main := entry[:len(entry)-1], entry[len(entry)-1]
	return append(append([]string{"-X", "frozen_modules=off"}, flags...), filepath.Join(installed, debugFile), address, main)
}

// mapSource compiles the source under the name of its file, with its line numbers. A JSON string is also a Python
// string.
func mapSource(source, origin string, line int) (string, error) {
	text, err := json.Marshal(strings.Repeat("\n", line-1) + source)
	if err != nil {
		return "", err
	}
	name, err := json.Marshal(origin)
	return fmt.Sprintf("exec(compile(%s, %s, \"exec\"))\n", text, name), err
}

var (
	pipInvalid   = regexp.MustCompile(`(?m)^ERROR: ((?:Invalid requirement|Could not open requirements file|Invalid constraint).*)$`)
	pipNoMatch   = regexp.MustCompile(`(?m)^\s*ERROR: No matching distribution found for (.+)$`)
	pipVersions  = regexp.MustCompile(`(?m)ERROR: Could not find a version .*\(from versions: (.+)\)$`)
	pipFetch     = regexp.MustCompile(`(?m)Could not fetch URL (\S+): (.+?)(?: - skipping)?$`)
	pipHTTP      = regexp.MustCompile(`(?m)^\s*ERROR: HTTP error (\d+ .*)$`)
	pipConflict  = regexp.MustCompile(`(?s)The conflict is caused by:\n(.+?)\n\n`)
	pipWheel     = regexp.MustCompile(`(?m)(?:ERROR: Failed building wheel for |Building wheel for |Preparing metadata \(pyproject\.toml\) for )(\S+)`)
	pipCollected = regexp.MustCompile(`(?m)^Collecting (\S+)`)
	pipLast      = regexp.MustCompile(`(?m)^\s+(\S.*)\n\s+\[end of output\]`)
	pipError     = regexp.MustCompile(`(?m)^\s*(?:ERROR|error): (.+)$`)
	pipNetwork   = regexp.MustCompile(`(?i)connection error|Max retries exceeded|Read timed out|ReadTimeoutError|ConnectionError|` +
		`ProtocolError|IncompleteRead|NewConnectionError|5\d\d (?:Server )?Error`)
	pipForbidden = regexp.MustCompile(`\b40[13] (?:Client )?(?:Error|Unauthorized|Forbidden)|^40[13] `)
	pipPython    = regexp.MustCompile(`Requires-Python|requires a different Python|require a different python version`)
)

// classify classifies a failure of pip by its output and its log, because only the log contains the reason why an index
// could not be read.
func classify(f language.Failed) (language.Reason, string) {
	output := f.Output
	if line := language.Match(pipInvalid, output); line != "" {
		return language.InvalidDependencies, fmt.Sprintf("%s cannot be used: %s", f.Manifest, line)
	}
	if strings.Contains(output, "ResolutionImpossible") || pipConflict.MatchString(output) {
		return language.InvalidDependencies, fmt.Sprintf("the dependencies in %s contradict each other: %s; change a version so that they agree",
			f.Manifest, strings.Join(strings.Fields(language.Match(pipConflict, output)), " "))
	}
	if wanted := language.Match(pipNoMatch, output); wanted != "" {
		return noDistribution(f, wanted)
	}
	if answer := language.Match(pipHTTP, output); pipForbidden.MatchString(answer) {
		return language.PackageForbidden, fmt.Sprintf("the package index refuses access: %s; %s", answer, f.Site.Credentials)
	}
	return failedPip(f)
}

// noDistribution distinguishes a missing package from an index that could not be read.
func noDistribution(f language.Failed, wanted string) (language.Reason, string) {
	for _, fetch := range pipFetch.FindAllStringSubmatch(f.Log, -1) {
		url, cause := fetch[1], fetch[2]
		switch {
		case pipForbidden.MatchString(cause):
			return language.PackageForbidden, fmt.Sprintf("the package index refuses access to %s; %s", url, f.Site.Credentials)
		case language.Distrusted(cause):
			return language.PackagesUnreachable, fmt.Sprintf("the certificate of the package index is not trusted (%s); %s", url, f.Site.Trust)
		case pipNetwork.MatchString(cause):
			return language.PackagesUnreachable, fmt.Sprintf("the package index does not answer (%s); %s", url, f.Site.Later)
		}
	}
	versions := language.Match(pipVersions, f.Output)
	switch {
	case pipPython.MatchString(f.Output):
		return language.PackageNotFound, fmt.Sprintf("no version of a package fits %s for this version of Python; correct %s or change the runtime",
			wanted, f.Manifest)
	case versions == "none" || versions == "":
		return language.PackageNotFound, fmt.Sprintf("there is no package %s for this version of Python; correct %s or, if it is private, %s",
			wanted, f.Manifest, f.Site.Credentials)
	}
	return language.PackageNotFound, fmt.Sprintf("no version of a package fits %s (the newest is %s); correct %s",
		wanted, versions[strings.LastIndexByte(versions, ' ')+1:], f.Manifest)
}

// failedPip classifies failures after all packages were found.
func failedPip(f language.Failed) (language.Reason, string) {
	output := f.Output
	name := language.Match(pipWheel, output)
	if all := pipCollected.FindAllStringSubmatch(output, -1); name == "" && len(all) > 0 {
		name = all[len(all)-1][1]
	}
	if strings.Contains(output, "Cannot find command 'git'") {
		return f.GitMissing()
	}
	if reason, message, ok := f.GitFailure(output); ok {
		return reason, message
	}
	if reason, message, ok := f.CompilerMissing(name); ok {
		return reason, message
	}
	switch {
	case strings.Contains(output, "DO NOT MATCH THE HASHES"):
		return language.InstallFailed, "a package is not what its hash says; correct the hash, and find out who changed the package"
	case language.Distrusted(output):
		return language.PackagesUnreachable, "the certificate of the package index is not trusted; " + f.Site.Trust
	case pipNetwork.MatchString(output):
		return language.PackagesUnreachable, "the package index does not answer; " + f.Site.Later
	case strings.Contains(output, "No module named pip"):
		return language.InstallFailed, f.Site.Name + " has no pip; " + f.Site.Manager
	case pipWheel.MatchString(output):
		return language.InstallFailed, fmt.Sprintf("%s cannot be built: %s", name, cmp.Or(language.Match(pipLast, output), language.Match(pipError, output)))
	}
	return language.InstallFailed, "pip failed: " + cmp.Or(language.Match(pipLast, output), language.Match(pipError, output), language.LastLine(output))
}
