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
	"github.com/rouse-run/rouse/runtimes/language"
)

// interpreter is what runs or compiles a language on this machine.
type interpreter struct {
	*language.Language

	path    string
	version string
	made    string // what code that it compiled depends on
	env     []string
}

// find looks for the interpreter that options name, or for one of the PATH: the runtime's own version before any other.
func find(ctx context.Context, l *language.Language, runtime, named string) (interpreter, error) {
	if named == "" && l.Local.Versioned != nil {
		program, probe := l.Local.Versioned(runtime)
		// A version manager may have the name in the PATH and the program not.
		if own, err := look(ctx, l, program, "", probe); err == nil && own.release() == digits(runtime) {
			return own, nil
		}
	}
	return look(ctx, l, l.Local.Program, named, l.Local.Probe)
}

// look probes a program, or the one that options name in its place.
func look(ctx context.Context, l *language.Language, program, named string, probe []string) (interpreter, error) {
	where := named
	if where == "" {
		where = program
	}
	file, err := exec.LookPath(where)
	if err != nil {
		if named != "" {
			return interpreter{}, fail(InterpreterMissing, "there is no %s at %s; correct the path, or %s", l.Title, named, l.Local.Remedy)
		}
		return interpreter{}, fail(InterpreterMissing, "there is no %s on the PATH; %s", program, l.Local.Remedy)
	}
	if file, err = filepath.Abs(file); err != nil {
		return interpreter{}, fmt.Errorf("find %s: %w", program, err)
	}
	ran := dependencies.Run(ctx, dependencies.Command{
		Dir: string(filepath.Separator), Env: os.Environ(), Args: append([]string{file}, probe...),
	}, io.Discard)
	probed, understood := read(l, ran.Output)
	if ran.Err != nil || !understood {
		if ctx.Err() != nil {
			return interpreter{}, ctx.Err()
		}
		return interpreter{}, fail(InterpreterMissing, "%s does not run as %s: %s; %s", file, l.Title, language.LastLine(ran.Output), l.Local.Remedy)
	}
	if !atLeast(probed[1], l.Local.Least) {
		return interpreter{}, fail(InterpreterMissing, "%s is %s %s, which is too old; %s", file, l.Title, probed[1], l.Local.Remedy)
	}
	path := filepath.Dir(probed[0]) + string(filepath.ListSeparator) + os.Getenv("PATH")
	return interpreter{Language: l, path: probed[0], version: probed[1], made: probed[2], env: append(os.Environ(), "PATH="+path)}, nil
}

// read takes what a probe printed.
func read(l *language.Language, output string) (probed [3]string, understood bool) {
	if l.Local.ReadProbe != nil {
		probed[0], probed[1], probed[2] = l.Local.ReadProbe(output)
		return probed, probed[0] != ""
	}
	return probed, json.Unmarshal([]byte(language.LastLine(output)), &probed) == nil
}

// manager is the program that installs packages.
func (i interpreter) manager() (string, error) {
	name := i.Local.Manager
	if name == "" {
		return i.path, nil
	}
	if beside := filepath.Join(filepath.Dir(i.path), name); isExecutable(beside) {
		return beside, nil
	}
	file, err := exec.LookPath(name)
	if err != nil {
		return "", fail(InterpreterMissing, "there is no %s, neither on the PATH nor beside %s; %s", name, i.path, i.Local.Remedy)
	}
	return file, nil
}

func isExecutable(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// release is what the name of a runtime has of a version: 22 or 312.
func (i interpreter) release() string {
	parts := strings.SplitN(i.version, ".", 3)
	return strings.Join(parts[:min(i.Local.VersionParts, len(parts))], "")
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
