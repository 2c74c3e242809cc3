package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

const usage = `Usage: suite -C REPOSITORY <command> [flags] [arguments]

Commands:
  tiers STAGE...       run make's targets: stages one after the other; 'a b | c' runs a and then b, beside c
  check                lint and test what the working tree changes, and what imports it
  flakes [PACKAGE...]  run the tests of the packages many times beside each other
  once TARGET...       run make's targets unless they succeeded today with the same dependencies
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

// errFailed means that checks failed and that the failures have been printed.
var errFailed = errors.New("checks failed")

func run(ctx context.Context, args []string, out io.Writer) int {
	out = &together{out: out}
	flags := flag.NewFlagSet("suite", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() { _, _ = fmt.Fprint(out, usage); flags.PrintDefaults() }
	root := flags.String("C", ".", "the repository")
	base := flags.String("base", "", "check: the commit to compare with (default: where the branch left main)")
	runs := flags.Int("runs", 10, "flakes: how often each package's tests run")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	var err error
	switch flags.Arg(0) {
	case "tiers":
		err = runTiers(ctx, out, *root, flags.Args()[1:])
	case "check":
		err = check(ctx, out, *root, *base)
	case "flakes":
		err = flakes(ctx, out, *root, *runs, strings.Fields(strings.Join(flags.Args()[1:], " ")))
	case "once":
		err = once(ctx, out, *root, flags.Args()[1:])
	default:
		flags.Usage()
		return 2
	}
	if err != nil {
		if !errors.Is(err, errFailed) {
			_, _ = fmt.Fprintf(out, "suite: %v\n", err)
		}
		return 1
	}
	return 0
}
