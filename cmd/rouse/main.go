// Command rouse is for people: it runs Functions on their machine and asks a running Rouse, there or in a cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/rouse-run/rouse/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}
