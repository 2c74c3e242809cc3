package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/internal/fips"
)

// Options is what a component brings: its flags and their check.
type Options interface {
	BindFlags(fs *pflag.FlagSet)
	Validate() error
}

// Main is the whole of a command's main function: flags from args, log, signals, run. It returns the exit
// code: 0 when run ended well, 1 when it failed, 2 when the command line is wrong.
func Main(name string, args []string, options Options, run func(context.Context, logr.Logger) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	return runMain(ctx, name, args, os.Stderr, options, run)
}

func runMain(
	ctx context.Context, name string, args []string, stderr io.Writer,
	options Options, run func(context.Context, logr.Logger) error,
) int {
	logs, profiling := DefaultLogOptions(), ProfilingOptions{}
	fs := pflag.NewFlagSet(name, pflag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.SortFlags = false
	options.BindFlags(fs)
	logs.BindFlags(fs)
	profiling.BindFlags(fs)
	asked := fs.String("fips-mode", string(fips.Off), "FIPS 140-3 mode without which the process does not start, of off, on and only")
	showVersion := fs.Bool("version", false, "print the version and exit")

	if err := fs.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return 0
		}
		return usage(stderr, name, err)
	}
	if *showVersion {
		_, _ = fmt.Fprintln(stderr, name, ThisBuild())
		return 0
	}
	if fs.NArg() > 0 {
		return usage(stderr, name, fmt.Errorf("unknown argument %q: only flags are accepted", fs.Arg(0)))
	}
	state := fips.Running()
	if err := errors.Join(options.Validate(), logs.Validate(), profiling.Validate(), checkFIPS(*asked, state)); err != nil {
		return usage(stderr, name, err)
	}

	live, err := New(stderr, name, logs.Config())
	if err != nil {
		return usage(stderr, name, err)
	}
	log := live.Logger()
	build := ThisBuild()
	log.Info("starting", "component", name, "version", build.Version, "commit", build.Commit, "built", build.Time, "go", build.Go,
		"fips", state.Mode(), "fipsModule", state.Version)
	err = profiling.run(ctx, log, func(ctx context.Context) error { return run(ctx, log) })
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Error(err, "stopped by an error", "component", name)
		return 1
	}
	log.Info("stopped", "component", name)
	return 0
}

func checkFIPS(asked string, state fips.State) error {
	mode, err := fips.Parse(asked)
	if err == nil {
		err = mode.Check(state)
	}
	if err != nil {
		err = fmt.Errorf("--fips-mode %w", err)
	}
	return err
}

func usage(stderr io.Writer, name string, err error) int {
	_, _ = fmt.Fprintf(stderr, "%s: %v\nRun %s --help for all flags.\n", name, err, name)
	return 2
}
