package toolchain

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/dependencies"
	"github.com/rouse-run/rouse/runtimes"
	"github.com/rouse-run/rouse/runtimes/language"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// interpreter is the interpreter or compiler of a language on this machine.
type interpreter struct {
	*language.Language

	path    string
	version string
	made    string // the version that compiled code depends on
	env     []string
}

// find returns the interpreter in the options, or one in the PATH: the runtime's version before any other.
func find(ctx context.Context, l *language.Language, runtime, named string) (interpreter, error) {
	if named == "" && l.Local.Versioned != nil {
		program, probe := l.Local.Versioned(runtime)
		// A version manager may put a name into the PATH without a program.
		if own, err := look(ctx, l, program, "", probe); err == nil && own.release() == digits(runtime) {
			return own, nil
		}
	}
	return look(ctx, l, l.Local.Program, named, l.Local.Probe)
}

// Program is the interpreter or compiler of a runtime on this machine.
type Program struct{ Title, Path, Version string }

// Find returns the program that runs Functions of a runtime: the one that is named, or one of the PATH. Its title is there also with an
// error, a Failure that names the remedy.
func Find(ctx context.Context, runtime, named string) (Program, error) {
	known, err := languages.Of(runtime)
	if err != nil {
		return Program{}, err
	}
	found, err := find(ctx, known, runtime, named)
	if err == nil {
		_, err = found.manager()
	}
	if err != nil {
		return Program{Title: known.Title}, err
	}
	return Program{Title: known.Title, Path: found.path, Version: found.version}, nil
}

// look probes a program, or the one in the options.
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

// read parses the output of a probe.
func read(l *language.Language, output string) (probed [3]string, understood bool) {
	if l.Local.ReadProbe != nil {
		probed[0], probed[1], probed[2] = l.Local.ReadProbe(output)
		return probed, probed[0] != ""
	}
	return probed, json.Unmarshal([]byte(language.LastLine(output)), &probed) == nil
}

// manager returns the path of the package manager.
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

// release returns the version as in the name of a runtime: 22 or 312.
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

// server returns the folder of a runtime's server, built for an interpreter like the layer of its image.
func (t *Toolchain) server(ctx context.Context, i interpreter, begun func(string)) (string, error) {
	files, err := runtimes.Of(i.Folder)
	if err != nil {
		return "", err
	}
	hash, err := files.Hash()
	if err != nil {
		return "", err
	}
	manager, err := i.manager()
	if err != nil {
		return "", err
	}
	start := func() { begun("preparing the " + i.Title + " runtime, once for this machine") }
	made, err := t.store.entry(ctx, i.Local.Program, i.version+"-"+keyOf(hash, i.made), start, func(dir, final string) error {
		sources := dir + "-sources"
		defer func() { _ = os.RemoveAll(sources) }() // leftovers are harmless
		if err := os.RemoveAll(sources); err != nil {
			return fmt.Errorf("clear the cache: %w", err)
		}
		if err := files.Write(sources); err != nil {
			return err
		}
		line := []string{"sh", filepath.Join(sources, "layer.sh"), dir, i.path}
		if i.Local.LayerKnowsItsPlace {
			line = append(line, final)
		}
		return t.layer(ctx, i, manager, line)
	})
	if err != nil {
		return "", err
	}
	return filepath.Join(made, "usr/src/app"), nil
}

func (t *Toolchain) layer(ctx context.Context, i interpreter, manager string, line []string) error {
	made := dependencies.Run(ctx, dependencies.Command{
		Dir: filepath.Dir(line[1]), Env: i.env, Args: line, Guard: t.o.Guard,
	}, t.o.Output)
	if made.Err == nil {
		return nil
	}
	why := dependencies.Request{
		Language: i.Language, Program: manager, Manifest: "the runtime's list of packages", Site: dependencies.Machine(i.Language),
	}.Explain(made)
	return &Failure{
		Reason:  RuntimeUnavailable,
		Message: fmt.Sprintf("the %s runtime cannot be prepared: %s", i.Title, why.Message),
		Log:     why.Log,
	}
}

const (
	// debugTimeout is a day in seconds, so that no call times out in a debugger.
	debugTimeout = "86400"
	portsToTry   = 100
)

// debugged returns the Launch under a debugger with an address of its own.
func (l *launching) debugged(ctx context.Context, launch Launch, line []string) (Launch, error) {
	if l.interpreter.Local.Debugger.Args == nil {
		return Launch{}, fail(RuntimeUnavailable, "local mode starts no debugger for %s; leave --debug away", l.interpreter.Title)
	}
	address, err := l.t.debugAddress(l.key().String(), launch.Identity, l.t.firstPort(l.interpreter.Language))
	if err != nil {
		return Launch{}, err
	}
	launch.DebugAddress = address
	debugger, installed := l.interpreter.Local.Debugger, ""
	if debugger.Name != "" {
		if installed, err = l.debugger(ctx, debugger); err != nil {
			return Launch{}, err
		}
	}
	launch.Args = debugger.Args(address, installed, line)
	return launch, nil
}

// debugAddress returns the address of a debugger, which is stable while the Launch is the same. A changed Launch starts while the old one
// still listens, and gets the next free address.
func (t *Toolchain) debugAddress(fn, identity string, first int) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if address := t.debug[fn+"\x00"+identity]; address != "" {
		return address, nil
	}
	for port := first; port < first+portsToTry; port++ {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		if t.taken(fn, address) {
			continue
		}
		listener, err := net.Listen("tcp", address) //nolint:noctx // of this machine, and closed at once
		if err != nil {
			continue
		}
		if err := listener.Close(); err != nil {
			return "", fmt.Errorf("find a port for the debugger: %w", err)
		}
		t.debug[fn+"\x00"+identity] = address
		return address, nil
	}
	return "", fail(RuntimeUnavailable, "no port from %d to %d is free for the debugger; end other debuggers", first, first+portsToTry-1)
}

// taken reports whether another Function has the address.
func (t *Toolchain) taken(fn, address string) bool {
	for other, theirs := range t.debug {
		if theirs == address && !strings.HasPrefix(other, fn+"\x00") {
			return true
		}
	}
	return false
}

// debugger returns the folder of the language's debugger, which it installs at first use.
func (l *launching) debugger(ctx context.Context, d language.Debugger) (string, error) {
	i := l.interpreter
	key := i.version + "-" + keyOf(i.made, d.Script)
	installing := l.step("waiting for " + d.Name)
	begun := func() { installing.begin("installing " + d.Name + ", once for this machine") }
	dir, err := l.t.store.entry(ctx, d.Name, key, begun, func(dir, final string) error {
		if err := os.WriteFile(filepath.Join(dir, i.Packages.Manifest), []byte(d.Manifest), 0o600); err != nil {
			return fmt.Errorf("find the debugger's path: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, d.ScriptFile), []byte(d.Script), 0o600); err != nil {
			return fmt.Errorf("write the debugger's start file: %w", err)
		}
		return l.t.install(ctx, wanted{interpreter: i, source: dir, manifest: "what local mode debugs with"}, dir, final)
	})
	installing.end(err)
	return dir, err
}

// mapSource maps the lines of the inline source to the user's file, for debuggers and stack traces.
func mapSource(file string, at manifest.Position, mapped func(source, origin string, line int) (string, error)) error {
	if at.File == "" || at.Line == 0 {
		return nil
	}
	origin, err := filepath.Abs(at.File)
	if err != nil {
		return fmt.Errorf("find the source of a Function: %w", err)
	}
	source, err := os.ReadFile(file) //nolint:gosec // the copy of the Function's source
	if err != nil {
		return fmt.Errorf("read the source of a Function: %w", err)
	}
	text, err := mapped(string(source), origin, at.Line)
	if err != nil {
		return fmt.Errorf("map the source of a Function: %w", err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return fmt.Errorf("map the source of a Function: %w", err)
	}
	return nil
}
