// Command builder builds the image of a Function. "builder fetch" copies itself into a volume, and the source of a
// repository into another; "builder install", in the runtime's image, makes a layer of source and dependencies and passes
// it to "builder push", which runs in parallel and pushes the image. "builder prepare" only fills the Function's directory.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/builder"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/git"
	"github.com/rouse-run/rouse/runtimes/language"
)

func main() {
	os.Exit(start(os.Args[1:], os.Stdout, os.Stderr))
}

func start(args []string, stdout, stderr io.Writer) int {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	steps := map[string]func(*options, *builder.Builder, context.Context) buildplan.Result{
		"fetch":   func(o *options, b *builder.Builder, ctx context.Context) buildplan.Result { return o.fetch(ctx, b) },
		"install": func(_ *options, b *builder.Builder, ctx context.Context) buildplan.Result { return b.Install(ctx) },
		"push":    func(_ *options, b *builder.Builder, ctx context.Context) buildplan.Result { return b.Push(ctx) },
		"prepare": func(_ *options, b *builder.Builder, ctx context.Context) buildplan.Result { return b.Prepare(ctx) },
	}
	step, known := steps[name]
	if !known {
		_, _ = fmt.Fprintln(stderr, "builder: the first argument has to be fetch, install, push or prepare")
		return 2
	}
	o := defaultOptions()
	return daemon.Main("builder "+name, args, o, func(ctx context.Context, log logr.Logger) error {
		return o.end(step(o, newBuilder(o, stdout, log), ctx))
	})
}

func newBuilder(o *options, stdout io.Writer, log logr.Logger) *builder.Builder {
	return builder.New(o.builder, builder.Deps{Git: repositories{dir: o.gitDir}, Output: stdout, Log: log})
}

type options struct {
	builder        builder.Options
	binaryDir      string
	gitDir         string
	terminationLog string
}

func defaultOptions() *options {
	return &options{
		builder: builder.DefaultOptions(), binaryDir: buildplan.BinaryDir, gitDir: buildplan.GitDir, terminationLog: "/dev/termination-log",
	}
}

// Flags implements flags.Options.
func (o *options) Flags(fs *flags.Set) {
	o.builder.Flags(fs)
	fs.String(&o.binaryDir, "binary-dir", "directory that fetch copies this program to")
	fs.String(&o.gitDir, "git-dir", "directory with the credentials of the Git repository")
	fs.String(&o.terminationLog, "termination-log", "file that the result is written to")
}

// end writes the result for the controller and returns an error for a failed one.
func (o *options) end(result buildplan.Result) error {
	var failure error
	if result.Reason != "" {
		failure = fmt.Errorf("%s: %s", result.Reason, result.Message)
	}
	text, err := buildplan.EncodeResult(result)
	if err == nil {
		err = os.WriteFile(o.terminationLog, text, 0o644) //nolint:gosec // the kubelet reads it
	}
	if err != nil {
		err = fmt.Errorf("report the result: %w", err)
	}
	return errors.Join(failure, err)
}

// fetch provides what the next container needs: this program, and the source of a repository.
func (o *options) fetch(ctx context.Context, b *builder.Builder) buildplan.Result {
	if err := copyProgram(o.binaryDir); err != nil {
		return buildplan.Result{Reason: language.Interrupted, Message: err.Error()}
	}
	return b.Fetch(ctx)
}

// copyProgram writes this program to the directory, under the name builder.
func copyProgram(to string) (err error) {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	in, err := os.Open(self) //nolint:gosec // this program
	if err != nil {
		return fmt.Errorf("read this program: %w", err)
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(filepath.Join(to, "builder"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755) //nolint:gosec // another user runs it
	if err != nil {
		return fmt.Errorf("write the copy: %w", err)
	}
	defer func() {
		if closed := out.Close(); err == nil && closed != nil {
			err = fmt.Errorf("write the copy: %w", closed)
		}
	}()
	if _, err := io.Copy(out, in); err != nil {
		return fmt.Errorf("write the copy: %w", err)
	}
	return nil
}

// repositories fetches with the credentials in a directory.
type repositories struct{ dir string }

// Fetch writes the files of the source's directory at its commit into a directory.
func (r repositories) Fetch(ctx context.Context, source buildplan.Git, ca []byte, into string) error {
	credentials, err := git.ReadDir(source.Auth, r.dir)
	if err != nil {
		return err
	}
	client, err := git.New(git.Options{CA: ca})
	if err != nil {
		return err
	}
	return client.Fetch(ctx,
		git.Repository{URL: source.URL, Credentials: credentials},
		git.Commit{Hash: source.Commit, Reference: source.Reference, BaseDir: buildplan.CleanDir(source.BaseDir)}, into)
}
