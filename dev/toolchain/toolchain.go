package toolchain

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/dev/manifest"
	"github.com/rouse-run/rouse/runtimes/language"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// Toolchain makes Launches. It may be used by many at a time.
type Toolchain struct {
	o     Options
	store store
	// firstPort is the first that debuggers try.
	firstPort func(*language.Language) int

	mu       sync.Mutex
	found    map[string]interpreter // by the name of the language, or of the runtime
	commits  map[string]string      // what references stand for
	reported map[string]bool        // what Progress got already
	debug    map[string]string      // addresses of debuggers, by Function and identity
}

// New returns a toolchain that has touched nothing yet.
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

// Launch gets everything ready that the Function needs and returns how it is started. What is in the cache is used from
// there. The error is a *Failure.
func (t *Toolchain) Launch(ctx context.Context, fn manifest.Function, in Inputs) (Launch, error) {
	launch, err := t.launch(ctx, fn, in)
	return launch, asFailure(ctx, err)
}

// launching is one Launch under way.
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
	steps []*step // that run now
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
	// The first of all starts waits for packages from the network: the server's and the Function's come side by side.
	go func() {
		defer close(l.serverReady)
		preparing := l.step("waiting for the " + l.interpreter.Title + " runtime")
		l.serverDir, l.serverErr = t.server(ctx, l.interpreter, preparing.begin)
		preparing.end(l.serverErr)
	}()
	defer func() { <-l.serverReady }() // also after a failure: others need the server as well
	if err := os.MkdirAll(l.folder, 0o700); err != nil {
		return Launch{}, fmt.Errorf("make the Function's state folder: %w", err)
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

func (l *launching) key() types.NamespacedName {
	return types.NamespacedName{Namespace: l.fn.Namespace, Name: l.fn.Name}
}

func (l *launching) reportProgress(text string) { l.t.o.Progress(l.key(), text) }

// reportOnce reports something of the Function at its first launch alone.
func (l *launching) reportOnce(text string) { l.t.reportOnce(l.key(), text) }

// reportForMachine reports what is so for all Functions, once.
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
