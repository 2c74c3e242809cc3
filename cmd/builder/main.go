// Command builder makes the image of a Function, inside the runtime's image. "builder copy" puts itself into a volume
// for the container that runs "builder build", which pushes an image, or "builder prepare", which only fills the
// Function's directory.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/builder"
	"github.com/rouse-run/rouse/internal/build"
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
	switch name {
	case "copy":
		o := &copyOptions{to: build.BinaryDir}
		return daemon.Main("builder copy", args, o, func(context.Context, logr.Logger) error { return o.copy() })
	case "build":
		o := defaultOptions()
		return daemon.Main("builder build", args, o, func(ctx context.Context, log logr.Logger) error {
			return o.end(newBuilder(o, stdout, log).Build(ctx))
		})
	case "prepare":
		o := defaultOptions()
		return daemon.Main("builder prepare", args, o, func(ctx context.Context, log logr.Logger) error {
			return o.end(newBuilder(o, stdout, log).Prepare(ctx))
		})
	default:
		_, _ = fmt.Fprintln(stderr, "builder: the first argument has to be copy, build or prepare")
		return 2
	}
}

func newBuilder(o *options, stdout io.Writer, log logr.Logger) *builder.Builder {
	return builder.New(o.builder, builder.Deps{Git: repositories{dir: o.gitDir}, Output: stdout, Log: log})
}
