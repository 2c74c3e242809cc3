package toolchain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/internal/dependencies"
	"github.com/rouse-run/rouse/runtimes/language"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// Options are the options of a Toolchain.
type Options struct {
	// Cache is the cache folder.
	Cache string
	// Programs are interpreters by the name of the language; others are found in the PATH.
	Programs map[string]string
	// Output receives the output of package managers; nil discards it.
	Output io.Writer
	// Progress receives progress messages and notes about a Function; it may be nil. Notes about all Functions come once, with the zero name.
	// It may be called concurrently.
	Progress func(fn types.NamespacedName, text string)
	// Doing receives what a Function waits for, empty for nothing; it may be nil. It may be called concurrently.
	Doing func(fn types.NamespacedName, text string)
	// Guard kills package managers when this process is killed; it may be nil.
	Guard dependencies.Guard
}

// Launch describes how to start a Function. The process listens at FUNC_PORT, and sends its port through FUNC_READY_FD; the caller sets
// both.
type Launch struct {
	// Path is the absolute path of the program.
	Path string
	// Args are the arguments after the program's name.
	Args []string
	// Env is the environment without FUNC_PORT and FUNC_READY_FD.
	Env []string
	// Dir is the working directory.
	Dir string
	// Cache is the absolute path of the folder with servers and packages.
	Cache string
	// Identity changes with every input of the process.
	Identity string
	// DebugAddress is the address for a debugger, host:port; empty without Inputs.Debug.
	DebugAddress string
}

// Inputs are the inputs of a Launch in addition to the Function.
type Inputs struct {
	// PublisherAddress is the URL that events are published to.
	PublisherAddress string
	// State is the state folder of the local mode.
	State      string
	ConfigMaps []*corev1.ConfigMap
	Secrets    []*corev1.Secret
	// Debug starts the Function under a debugger, without waiting for a client.
	Debug bool
}

// Toolchain prepares Launches. It is safe for concurrent use.
type Toolchain struct {
	o     Options
	store store
	// firstPort is the first port that debuggers try.
	firstPort func(*language.Language) int

	mu       sync.Mutex
	found    map[string]interpreter // by the name of the language, or of the runtime
	commits  map[string]string      // by reference
	reported map[string]bool        // messages that Progress received
	debug    map[string]string      // addresses of debuggers, by Function and identity
}

// New returns a Toolchain. It does not access the file system.
func New(o Options) *Toolchain {
	if o.Output == nil {
		o.Output = io.Discard
	}
	if o.Progress == nil {
		o.Progress = func(types.NamespacedName, string) {}
	}
	if o.Doing == nil {
		o.Doing = func(types.NamespacedName, string) {}
	}
	return &Toolchain{
		o: o, store: store{dir: o.Cache, whole: map[string]bool{}}, firstPort: func(l *language.Language) int { return l.Local.Debugger.Port },
		found: map[string]interpreter{}, commits: map[string]string{}, reported: map[string]bool{}, debug: map[string]string{},
	}
}

// Launch prepares everything that the Function needs, as far as it is not in the cache, and returns how to start it. The error is a
// *Failure.
func (t *Toolchain) Launch(ctx context.Context, fn manifest.Function, in Inputs) (Launch, error) {
	launch, err := t.launch(ctx, fn, in)
	return launch, asFailure(ctx, err)
}

// launching is a Launch in progress.
type launching struct {
	t           *Toolchain
	fn          manifest.Function
	in          Inputs
	interpreter interpreter
	folder      string // of the Function, in the state folder

	serverReady chan struct{}
	serverDir   string
	serverErr   error

	mu    sync.Mutex
	steps []*step // running ones
}

func (t *Toolchain) launch(ctx context.Context, fn manifest.Function, in Inputs) (launch Launch, err error) {
	for _, dir := range []*string{&t.store.dir, &in.State} {
		if *dir == "" {
			return Launch{}, fail(CacheUnusable, "no folder was named for the cache or the state")
		}
	}
	state, err := filepath.Abs(in.State)
	if err != nil {
		return Launch{}, fmt.Errorf("find the state folder: %w", err)
	}
	l := &launching{
		t: t, fn: fn, in: in, folder: filepath.Join(state, "functions", fn.Namespace, fn.Name), serverReady: make(chan struct{}),
	}
	looking := l.step("looking for what runs " + string(fn.Spec.Runtime))
	l.interpreter, err = t.interpreter(ctx, fn)
	if looking.end(err); err != nil {
		return Launch{}, err
	}
	if have, want := l.interpreter.release(), digits(string(fn.Spec.Runtime)); have != want {
		l.reportForMachine(fmt.Sprintf("runtime %s runs with %s %s of this machine, %s",
			fn.Spec.Runtime, l.interpreter.Title, l.interpreter.version, l.interpreter.path))
	}
	// The first start waits for packages from the network: those of the server and of the Function are installed in parallel.
	go func() {
		defer close(l.serverReady)
		preparing := l.step("waiting for the " + l.interpreter.Title + " runtime")
		l.serverDir, l.serverErr = t.server(ctx, l.interpreter, preparing.begin)
		preparing.end(l.serverErr)
	}()
	defer func() { <-l.serverReady }() // also after a failure: other Functions need the server
	if err := os.MkdirAll(l.folder, 0o700); err != nil {
		return Launch{}, fmt.Errorf("create the Function's state folder: %w", err)
	}
	function, err := l.source(ctx)
	if err != nil {
		return Launch{}, err
	}
	mounts, err := l.mounts()
	if err != nil {
		return Launch{}, err
	}
	env, err := l.environment(function, mounts)
	if err != nil {
		return Launch{}, err
	}
	return l.assemble(ctx, function, env)
}

// server waits until the runtime's server is ready.
func (l *launching) server(ctx context.Context) (string, error) {
	select {
	case <-l.serverReady:
		return l.serverDir, l.serverErr
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (l *launching) assemble(ctx context.Context, function string, env []string) (Launch, error) {
	server, err := l.server(ctx)
	if err != nil {
		return Launch{}, err
	}
	cache, err := filepath.Abs(l.t.store.dir)
	if err != nil {
		return Launch{}, fmt.Errorf("find the cache folder: %w", err)
	}
	launch := Launch{Path: l.interpreter.path, Env: env, Dir: function, Cache: cache}
	var line []string
	if compiled := l.interpreter.Compiled; compiled != nil {
		launch.Path = filepath.Join(function, compiled.Binary)
	} else {
		line = l.interpreter.Local.Entry(server)
	}
	launch.Identity = keyOf(slices.Concat([]string{launch.Path, l.interpreter.version, strconv.FormatBool(l.in.Debug)}, line, env)...)
	launch.Args = line
	if l.in.Debug {
		return l.debugged(ctx, launch, line)
	}
	return launch, nil
}

func (t *Toolchain) interpreter(ctx context.Context, fn manifest.Function) (interpreter, error) {
	l, err := languages.Of(fn.Spec.Runtime)
	if err != nil {
		return interpreter{}, fail(Reason(language.InstallFailed), "%s: %v", fn.At, err)
	}
	key, runtime := l.Name, string(fn.Spec.Runtime)
	if l.Local.Versioned != nil {
		key = runtime
	}
	t.mu.Lock()
	known, found := t.found[key]
	t.mu.Unlock()
	if found && isExecutable(known.path) {
		return known, nil
	}
	if known, err = find(ctx, l, runtime, t.o.Programs[l.Name]); err != nil {
		return interpreter{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.found[key] = known
	return known, nil
}

func (t *Toolchain) resolvedTo(question string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.commits[question]
}

func (t *Toolchain) resolve(question, commit string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.commits[question] = commit
}

// nameOf returns the name of inline dependencies in messages: the file that the user edits, as far as it is known.
func nameOf(at manifest.Position) string {
	const field = "spec.source.inline.dependencies"
	switch {
	case at.File == "":
		return field
	case at.Line == 1: // a file of its own, which Kustomize has put into the Function
		return at.File
	default:
		return field + " (" + at.String() + ")"
	}
}

func (l *launching) key() types.NamespacedName {
	return types.NamespacedName{Namespace: l.fn.Namespace, Name: l.fn.Name}
}

func (l *launching) reportProgress(text string) { l.t.o.Progress(l.key(), text) }

// reportOnce reports a note about the Function at its first launch only.
func (l *launching) reportOnce(text string) { l.t.reportOnce(l.key(), text) }

// reportForMachine reports a note about all Functions once.
func (l *launching) reportForMachine(text string) { l.t.reportOnce(types.NamespacedName{}, text) }

func (t *Toolchain) reportOnce(fn types.NamespacedName, text string) {
	t.mu.Lock()
	known := fn.String() + text
	first := !t.reported[known]
	t.reported[known] = true
	t.mu.Unlock()
	if first {
		t.o.Progress(fn, text)
	}
}

func changed(entry os.DirEntry) time.Time {
	info, err := entry.Info()
	if err != nil {
		return time.Time{} // it is gone
	}
	return info.ModTime()
}

func digits(text string) string {
	kept := make([]rune, 0, len(text))
	for _, r := range text {
		if r >= '0' && r <= '9' {
			kept = append(kept, r)
		}
	}
	return string(kept)
}

// Reason classifies why a Function cannot be started. The reasons of package language occur, too.
type Reason string

// The reasons that a build in a cluster does not have.
const (
	InterpreterMissing Reason = "InterpreterMissing" // no interpreter, or one that is too old
	RuntimeUnavailable Reason = "RuntimeUnavailable" // the runtime's server cannot be prepared
	ReferenceMissing   Reason = "ReferenceMissing"   // a ConfigMap, a Secret or a key does not exist
	CacheUnusable      Reason = "CacheUnusable"      // the cache or the state folder cannot be written
	Interrupted        Reason = "Interrupted"        // the launch was cancelled
)

// Failure is the error of a Function that cannot be started, with the remedy.
type Failure struct { //nolint:errname // a failed start, which is printed as it is
	Reason  Reason
	Message string
	// Log holds the last lines of a package manager that failed.
	Log string
}

// Error returns the reason and the message.
func (f *Failure) Error() string { return fmt.Sprintf("%s: %s", f.Reason, f.Message) }

func fail(reason Reason, format string, args ...any) *Failure {
	return &Failure{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// asFailure converts an error to a *Failure; nil stays nil.
func asFailure(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fail(Interrupted, "it was stopped before the Function could be started")
	}
	if known, ok := errors.AsType[*Failure](err); ok {
		return known
	}
	if install, ok := errors.AsType[*dependencies.Failure](err); ok {
		return &Failure{Reason: Reason(install.Reason), Message: install.Message, Log: install.Log}
	}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fail(CacheUnusable, "%v; make room on that disk, or set XDG_CACHE_HOME and XDG_STATE_HOME to folders on another one", err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return fail(CacheUnusable, "%v; make it a folder that you can write, or set XDG_CACHE_HOME and XDG_STATE_HOME to others", err)
	}
	return fail(CacheUnusable, "%v", err)
}

// step is a step that the user of a Function may have to wait for. Several may run concurrently.
type step struct {
	launching *launching
	text      string
	began     time.Time // zero unless it was reported
}

// step records a step that the Function waits for until it ends.
func (l *launching) step(text string) *step {
	s := &step{launching: l, text: text}
	l.mu.Lock()
	l.steps = append(l.steps, s)
	l.mu.Unlock()
	l.showSteps()
	return s
}

// begin reports that the step is not cached and may take long.
func (s *step) begin(text string) {
	s.launching.mu.Lock()
	s.text, s.began = text, time.Now()
	s.launching.mu.Unlock()
	s.launching.reportProgress(text)
	s.launching.showSteps()
}

// end reports the duration; the caller reports a failure.
func (s *step) end(err error) {
	l := s.launching
	l.mu.Lock()
	l.steps = slices.DeleteFunc(l.steps, func(other *step) bool { return other == s })
	l.mu.Unlock()
	l.showSteps()
	if err == nil && !s.began.IsZero() {
		l.reportProgress(fmt.Sprintf("done in %.1f s: %s", time.Since(s.began).Seconds(), s.text))
	}
}

func (l *launching) showSteps() {
	l.mu.Lock()
	defer l.mu.Unlock() // also during the call, so that calls are in order
	texts := make([]string, 0, len(l.steps))
	for _, s := range l.steps {
		texts = append(texts, s.text)
	}
	l.t.o.Doing(l.key(), strings.Join(texts, "; "))
}
