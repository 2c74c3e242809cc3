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
	"github.com/rouse-run/rouse/internal/build"
	"github.com/rouse-run/rouse/internal/workload"
)

// Toolchain makes Launches. It may be used by many at a time.
type Toolchain struct {
	o     Options
	store store
	// firstPort is the first that debuggers try.
	firstPort func(python bool) int

	mu       sync.Mutex
	found    map[string]interpreter // by program
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
		o: o, store: store{dir: o.Cache, whole: map[string]bool{}}, firstPort: firstPort,
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
	if have, want := l.interpreter.major(), digits(string(fn.Spec.Runtime)); have != want {
		l.reportForMachine(fmt.Sprintf("runtime %s runs with %s %s of this machine, %s",
			fn.Spec.Runtime, l.interpreter.name, l.interpreter.version, l.interpreter.path))
	}
	// The first of all starts waits for packages from the network: the server's and the Function's come side by side.
	go func() {
		defer close(l.serverReady)
		preparing := l.step("waiting for the " + l.interpreter.name + " runtime")
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
	line := commandNode(server)
	if l.interpreter.python {
		line = commandPython(server)
	}
	launch.Identity = keyOf(slices.Concat([]string{launch.Path, l.interpreter.version, strconv.FormatBool(l.in.Debug)}, line, env)...)
	launch.Args = line
	if l.in.Debug {
		return l.debugged(ctx, launch, line)
	}
	return launch, nil
}

// commandNode is the entry point of the runtime's image.
func commandNode(server string) []string {
	return []string{
		"--disable-warning=MODULE_TYPELESS_PACKAGE_JSON", "--disable-warning=ExperimentalWarning", filepath.Join(server, "server.js"),
	}
}

// commandPython is the entry point of the runtime's image, and -S: packages of this machine, which no image has, are
// not to be found, and looking for them would cost a part of every start.
func commandPython(server string) []string {
	return []string{"-P", "-s", "-S", filepath.Join(server, "main.py")}
}

func (t *Toolchain) interpreter(ctx context.Context, fn manifest.Function) (interpreter, error) {
	language, named := nodejs(), t.o.Node
	switch {
	case workload.IsPython(fn.Spec.Runtime):
		language, named = python(), t.o.Python
	case !workload.IsNodeJS(fn.Spec.Runtime):
		return interpreter{}, fail(Reason(build.InstallFailed), "%s: there is no runtime %s; take one of nodejs22, nodejs24, python312 and python314",
			fn.At, fn.Spec.Runtime)
	}
	t.mu.Lock()
	known, found := t.found[language.program]
	t.mu.Unlock()
	if found && isExecutable(known.path) {
		return known, nil
	}
	known, err := find(ctx, language, named)
	if err != nil {
		return interpreter{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.found[language.program] = known
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
