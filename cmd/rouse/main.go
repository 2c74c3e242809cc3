// Command rouse is the command line: it runs Functions on the local machine and queries a running Rouse, locally or in a
// cluster.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/rouse-run/rouse/cli"
	"github.com/rouse-run/rouse/dev/process"
)

func main() {
	process.Keep()
	klog.SetLogger(logr.Discard()) // client-go's own; what matters of it comes back as an error
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second signal ends at once
	run := cli.Main
	if strings.HasPrefix(filepath.Base(os.Args[0]), "kubectl-") { // kubectl runs programs of such names
		run = cli.Plugin
	}
	code := run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}
