package toolchain

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rouse-run/rouse/internal/dependencies"
)

// language is what differs between Node.js and Python.
type language struct {
	python   bool
	name     string // as people write it
	program  string // what is looked for in the PATH
	probe    []string
	least    [2]int // the oldest version
	remedy   string
	handler  string
	packages string // the folder of installed packages
	setup    string // the file of the package manager in the Secret of private packages
}

// probeNode and probePython print where the interpreter really is, past the scripts of version managers, its version,
// and all that code compiled by it depends on.
const (
	probeNode   = `console.log(JSON.stringify([process.execPath, process.versions.node, process.versions.v8 + process.arch]))`
	probePython = `import json, sys, sysconfig
print(json.dumps([sys.executable, "%d.%d.%d" % sys.version_info[:3], sys.version + sysconfig.get_platform()]))`
)

func nodejs() language {
	return language{
		name: "Node.js", program: "node", probe: []string{"-e", probeNode}, least: [2]int{20, 19},
		remedy:  "install Node.js 20.19 or newer with npm, from https://nodejs.org or your system's packages",
		handler: "handler.js", packages: "node_modules", setup: ".npmrc",
	}
}

func python() language {
	return language{
		python: true, name: "Python", program: "python3", probe: []string{"-I", "-c", probePython}, least: [2]int{3, 11},
		remedy:  "install Python 3.11 or newer with pip, from https://www.python.org or your system's packages (python3 and python3-pip)",
		handler: "handler.py", packages: ".local", setup: "pip.conf",
	}
}

// interpreter is a Node.js or Python of this machine.
type interpreter struct {
	language

	path    string
	version string
	made    string // what code that it compiled depends on
	env     []string
}

// find looks for the interpreter that options name, or for that of the PATH.
func find(ctx context.Context, l language, named string) (interpreter, error) {
	where := named
	if where == "" {
		where = l.program
	}
	file, err := exec.LookPath(where)
	if err != nil {
		if named != "" {
			return interpreter{}, fail(InterpreterMissing, "there is no %s at %s; correct the path, or %s", l.name, named, l.remedy)
		}
		return interpreter{}, fail(InterpreterMissing, "there is no %s on the PATH; %s", l.program, l.remedy)
	}
	if file, err = filepath.Abs(file); err != nil {
		return interpreter{}, fmt.Errorf("find %s: %w", l.program, err)
	}
	ran := dependencies.Run(ctx, dependencies.Command{Dir: string(filepath.Separator), Env: os.Environ(), Args: append([]string{file}, l.probe...)}, io.Discard)
	var probed [3]string
	if ran.Err != nil || json.Unmarshal([]byte(lastLine(ran.Output)), &probed) != nil {
		if ctx.Err() != nil {
			return interpreter{}, ctx.Err()
		}
		return interpreter{}, fail(InterpreterMissing, "%s does not run as %s: %s; %s", file, l.name, lastLine(ran.Output), l.remedy)
	}
	if !atLeast(probed[1], l.least) {
		return interpreter{}, fail(InterpreterMissing, "%s is %s %s, which is too old; %s", file, l.name, probed[1], l.remedy)
	}
	path := filepath.Dir(probed[0]) + string(filepath.ListSeparator) + os.Getenv("PATH")
	return interpreter{language: l, path: probed[0], version: probed[1], made: probed[2], env: append(os.Environ(), "PATH="+path)}, nil
}

// manager is the program that installs packages.
func (i interpreter) manager() (string, error) {
	if i.python {
		return i.path, nil
	}
	if beside := filepath.Join(filepath.Dir(i.path), "npm"); isExecutable(beside) {
		return beside, nil
	}
	file, err := exec.LookPath("npm")
	if err != nil {
		return "", fail(InterpreterMissing, "there is no npm, neither on the PATH nor beside %s; %s", i.path, i.remedy)
	}
	return file, nil
}

func isExecutable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// major is what the name of a runtime has of a version: 22 or 312.
func (i interpreter) major() string {
	parts := strings.SplitN(i.version, ".", 3)
	if i.python && len(parts) > 1 {
		return parts[0] + parts[1]
	}
	return parts[0]
}

func atLeast(version string, least [2]int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	major, errMajor := strconv.Atoi(parts[0])
	minor, errMinor := strconv.Atoi(parts[1])
	if errMajor != nil || errMinor != nil {
		return false
	}
	return major > least[0] || major == least[0] && minor >= least[1]
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
