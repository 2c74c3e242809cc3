package dev

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rouse-run/rouse/dev/process"
)

// roleDirectory, roleState and roleCache make the test binary a local mode of its own.
const (
	roleDirectory = "ROUSE_TEST_DEV_DIRECTORY"
	roleState     = "ROUSE_TEST_DEV_STATE"
)

func TestMain(m *testing.M) {
	process.Keep()
	if directory := os.Getenv(roleDirectory); directory != "" {
		os.Exit(beLocalMode(directory, os.Getenv(roleState)))
	}
	os.Exit(m.Run())
}

// beLocalMode is what the command does.
func beLocalMode(directory, state string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	o := DefaultOptions()
	o.Directory, o.State, o.Plain, o.Out = directory, state, true, os.Stdout
	if err := Run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
