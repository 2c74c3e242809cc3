// Command rouse is for people: it runs Functions on their machine and asks a running Rouse, there or in a cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/rouse-run/rouse/cli"
	"github.com/rouse-run/rouse/dev/process"
)

func main() {
	process.Keep()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends at once
	code := cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}
