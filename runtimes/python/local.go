package python

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/rouse-run/rouse/runtimes/language"
)

const probe = `import json, sys, sysconfig
print(json.dumps([sys.executable, "%d.%d.%d" % sys.version_info[:3], sys.version + sysconfig.get_platform()]))`

// versioned is the program with a runtime's version in its name. One without pip could install nothing, where python3 can.
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
		// Entry is that of the runtime's image, and -S: packages of this machine, which no image has, are not to be found,
		// and looking for them would cost a part of every start.
		Entry:              func(server string) []string { return []string{"-P", "-s", "-S", filepath.Join(server, "main.py")} },
		LayerKnowsItsPlace: true,
		Environment: []language.Variable{
			{Name: "PYTHONUNBUFFERED", Value: "TRUE"},
			{Name: "PYTHONDONTWRITEBYTECODE", Value: "1"},
			// A laptop shares its cores among all Functions; a second process would only make the first start later.
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

// mapSource compiles the source under the name of its file, and on its lines. A string of JSON is one of Python too.
func mapSource(source, origin string, line int) (string, error) {
	text, err := json.Marshal(strings.Repeat("\n", line-1) + source)
	if err != nil {
		return "", err
	}
	name, err := json.Marshal(origin)
	return fmt.Sprintf("exec(compile(%s, %s, \"exec\"))\n", text, name), err
}
