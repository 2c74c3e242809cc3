package builder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/bundle"
	"github.com/rouse-run/rouse/internal/fips"
	"github.com/rouse-run/rouse/internal/git"
	"github.com/rouse-run/rouse/internal/sourcefiles"
	"github.com/rouse-run/rouse/runtimes/language"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// Builder executes the steps of a plan.
type Builder struct {
	o    Options
	deps Deps
	ca   []byte
	env  []string
}

// New returns a Builder.
func New(o Options, deps Deps) *Builder { return &Builder{o: o, deps: deps} }

// phase runs a part of a step and logs its duration.
func (b *Builder) phase(name string, work func() error) error {
	start := time.Now()
	err := work()
	b.deps.Log.Info("ended a phase", "phase", name, "seconds", seconds(start), "succeeded", err == nil)
	return err
}

func seconds(since time.Time) float64 {
	return float64(time.Since(since).Milliseconds()) / 1000
}

// begin reads the plan and sets the children's environment.
func (b *Builder) begin() (buildplan.Plan, error) {
	text, err := os.ReadFile(filepath.Join(b.o.Input, buildplan.PlanFile))
	if err != nil {
		return buildplan.Plan{}, fmt.Errorf("read the plan: %w", err)
	}
	plan, err := buildplan.DecodePlan(text)
	if err != nil {
		return buildplan.Plan{}, err
	}
	b.ca, err = os.ReadFile(filepath.Join(b.o.Input, buildplan.CAFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return buildplan.Plan{}, fmt.Errorf("read the CA bundle: %w", err)
	}
	// Paths are absolute, because children start in other directories.
	for _, dir := range []*string{&b.o.Work, &b.o.Source, &b.o.Cache, &b.o.Packages, &b.o.Function, &b.o.Server} {
		if *dir != "" {
			if *dir, err = filepath.Abs(*dir); err != nil {
				return buildplan.Plan{}, fmt.Errorf("find the working directory: %w", err)
			}
		}
	}
	home, temporary := filepath.Join(b.o.Work, "home"), filepath.Join(b.o.Work, "tmp")
	if err := errors.Join(os.MkdirAll(home, 0o700), os.MkdirAll(temporary, 0o700)); err != nil {
		return buildplan.Plan{}, fmt.Errorf("create the working directory: %w", err)
	}
	trusted, err := trust(b.ca, filepath.Join(b.o.Work, buildplan.CAFile))
	if err != nil {
		return buildplan.Plan{}, err
	}
	b.env = slices.Concat(environment(os.Environ(), fips.Running().Mode()), trusted, []string{"HOME=" + home, "TMPDIR=" + temporary})
	for _, each := range languages.All() { // building a package may need programs of another language
		b.env = append(b.env, each.BuildEnvironment...)
		if err := furnish(home, each.BuildHome); err != nil {
			return buildplan.Plan{}, err
		}
	}
	return plan, nil
}

// environment returns the environment for programs of the image. It leaves the FIPS 140-3 mode to the image: a Go program in a package
// would fail where it calls what is not approved.
func environment(ours []string, mode fips.Mode) []string {
	if !mode.Asked() {
		return ours
	}
	return slices.DeleteFunc(slices.Clone(ours), func(variable string) bool { return strings.HasPrefix(variable, fips.Variable+"=") })
}

// furnish writes the files that a language's programs expect in HOME.
func furnish(home string, files map[string]string) error {
	for name, text := range files {
		file := filepath.Join(home, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			return fmt.Errorf("write %s of the home directory: %w", name, err)
		}
	}
	return nil
}

// beginTask is begin for the steps that fill the Function's directory.
func (b *Builder) beginTask() (task, error) {
	plan, err := b.begin()
	if err != nil {
		return task{}, err
	}
	return taskOf(plan)
}

// emptyOut empties a directory that cannot be removed, because it is a mounted volume.
func emptyOut(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the Function's directory: %w", err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return fmt.Errorf("clear the Function's directory: %w", err)
		}
	}
	return nil
}

// Git fetches a directory of a commit from a repository.
type Git interface {
	// Fetch writes the content of BaseDir at Commit into the directory into, which exists and is empty. ca holds PEM
	// certificates that are trusted besides those of the system. The error is for the user of the Function.
	Fetch(ctx context.Context, source buildplan.Git, ca []byte, into string) error
}

// Fetch fills the source's directory when the source is in a repository.
func (b *Builder) Fetch(ctx context.Context) buildplan.Result {
	plan, err := b.begin()
	if err != nil {
		return resultOf(ctx, err)
	}
	if plan.Git == nil {
		return buildplan.Result{}
	}
	return resultOf(ctx, b.phase("fetch", func() error {
		if err := emptyOut(b.o.Source); err != nil {
			return err
		}
		err := b.deps.Git.Fetch(ctx, *plan.Git, b.ca, b.o.Source)
		switch {
		case err == nil:
			return nil
		case git.IsTransient(err):
			return fail(language.SourceUnreachable, "%s", err.Error())
		}
		return fail(language.SourceUnavailable, "%s", err.Error())
	}))
}

// place writes the source and the dependency file into dir.
func (b *Builder) place(plan task, dir string) error {
	if plan.Git != nil {
		return copySource(b.o.Source, dir)
	}
	if len(plan.Files) > 0 {
		return placeFiles(plan, dir)
	}
	files := map[string]string{plan.language.Handler: plan.Source, plan.language.Packages.Manifest: plan.Dependencies}
	for name, content := range files {
		if strings.TrimSpace(content) == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil { //nolint:gosec // the runtime's user reads it
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// placeFiles writes the files of a folder, and what of an inline source they do not contain, into dir, which is empty.
// Nothing leaves dir, whatever the plan says.
func placeFiles(plan task, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("open the Function's directory: %w", err)
	}
	defer func() { _ = root.Close() }()
	files := sourcefiles.Files(plan.Files).Over(plan.language, plan.Source, plan.Dependencies)
	for _, name := range files.Names() {
		// The runtime's user reads them.
		if err := errors.Join(root.MkdirAll(filepath.Dir(name), 0o755), root.WriteFile(name, files[name], 0o644)); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// bundle compiles the handler, if its language needs that.
func (b *Builder) bundle(ctx context.Context, plan task, dir string) error {
	err := bundle.Source(ctx, plan.language, dir)
	if wrong, ok := errors.AsType[*bundle.Error](err); ok {
		return fail(language.SourceInvalid, "the source does not compile: %s", wrong.Error())
	}
	return err
}

// copySource copies the source, so that a retry finds it unchanged.
func copySource(from, to string) error {
	root, err := os.OpenRoot(from)
	if err != nil {
		return fmt.Errorf("open the source: %w", err)
	}
	defer func() { _ = root.Close() }()
	if err := os.CopyFS(to, root.FS()); err != nil {
		return fmt.Errorf("copy the source: %w", err)
	}
	return nil
}

// Prepare fills the Function's directory as in the image of the plan, without a push.
func (b *Builder) Prepare(ctx context.Context) buildplan.Result {
	plan, err := b.beginTask()
	if err != nil {
		return resultOf(ctx, err)
	}
	secrets := b.secrets()
	dir := b.o.Function
	if dir == "" {
		dir = plan.language.FunctionDir
	}
	if err := emptyOut(dir); err != nil {
		return resultOf(ctx, err)
	}
	return secrets.hide(resultOf(ctx, b.fill(ctx, plan, dir, secrets)))
}

// Install builds the layer of the plan in the runtime's image and sends it to Push, which runs concurrently.
func (b *Builder) Install(ctx context.Context) buildplan.Result {
	plan, err := b.beginTask()
	if err != nil {
		return resultOf(ctx, err)
	}
	// The connection is made before any code of a package runs, so that nothing else can take its place.
	to, err := dialHandover(ctx, b.o.Handover)
	if err != nil {
		return resultOf(ctx, err)
	}
	defer to.close()
	secrets := b.secrets()
	working, stop := to.whileWanted(ctx)
	defer stop()
	err = b.installInto(working, plan, to, secrets)
	if ctx.Err() == nil && (working.Err() != nil || errors.Is(err, errNotWanted)) {
		return buildplan.Result{} // Push failed, and reports the reason
	}
	return secrets.hide(resultOf(ctx, err))
}

func (b *Builder) installInto(ctx context.Context, plan task, to *handover, secrets secrets) error {
	dir := filepath.Join(b.o.Work, "function")
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // the children's user reads it
		return fmt.Errorf("create the Function's directory: %w", err)
	}
	if err := b.fill(ctx, plan, dir, secrets); err != nil {
		return err
	}
	return b.phase("layer", func() error {
		entries, err := list(dir)
		if err != nil {
			return err
		}
		if err := checkSize(entries, plan.MaxSize); err != nil {
			return err
		}
		return to.send(plan.language.FunctionDir, entries)
	})
}

// fill writes the content of the Function's directory into dir.
func (b *Builder) fill(ctx context.Context, plan task, dir string, secrets secrets) error {
	if plan.language.Compiled != nil {
		return b.fillWithBinary(ctx, plan, dir, secrets)
	}
	if err := b.phase("source", func() error { return b.place(plan, dir) }); err != nil {
		return err
	}
	if plan.language.Bundled != nil {
		if err := b.phase("bundle", func() error { return b.bundle(ctx, plan, dir) }); err != nil {
			return err
		}
	}
	if err := b.phase("check", func() error { return b.check(ctx, plan, dir) }); err != nil {
		return err
	}
	if err := b.phase("install", func() error { return b.install(ctx, plan, dir, secrets) }); err != nil {
		return err
	}
	if plan.language.Bytecode == nil {
		return nil
	}
	return b.phase("compile", func() error { return b.compile(ctx, plan.language, dir) })
}

// task is a plan and the language of its runtime.
type task struct {
	buildplan.Plan

	language *language.Language
}

func taskOf(plan buildplan.Plan) (task, error) {
	known, err := languages.Of(plan.Runtime)
	return task{Plan: plan, language: known}, err
}

// settings returns the names of package managers' settings in the Secret for private packages.
func settings() []string {
	var files []string
	for _, each := range languages.All() {
		files = append(files, each.Packages.Settings)
	}
	return files
}

// reasonError is an error with a reason and a message for the user of the Function.
type reasonError struct {
	reason  language.Reason
	message string
	log     string
}

func (e *reasonError) Error() string { return fmt.Sprintf("%s: %s", e.reason, e.message) }

func fail(reason language.Reason, format string, args ...any) *reasonError {
	return &reasonError{reason: reason, message: fmt.Sprintf(format, args...)}
}

// resultOf returns the result for an error. The reason of a cancelled build is Interrupted, whatever error its parts returned.
func resultOf(ctx context.Context, err error) buildplan.Result {
	if err == nil {
		return buildplan.Result{}
	}
	if ctx.Err() != nil {
		return buildplan.Result{
			Reason:  language.Interrupted,
			Message: "the build was stopped before it ended, by its time limit or with its node; it is tried again",
		}
	}
	known := &reasonError{}
	if errors.As(err, &known) {
		return buildplan.Result{Reason: known.reason, Message: known.message, Log: known.log}
	}
	return buildplan.Result{Reason: language.InstallFailed, Message: err.Error()}
}
