// Command builder makes the image of a Function. "builder fetch" puts itself into a volume, and the source of a
// repository into another; "builder install", in the runtime's image, makes a layer of source and dependencies and hands
// it to "builder push", which runs beside it and pushes the image. "builder prepare" only fills the Function's directory.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/builder"
	"github.com/rouse-run/rouse/internal/buildplan"
	"github.com/rouse-run/rouse/internal/daemon"
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
