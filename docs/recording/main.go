package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	columns = 100
	rows    = 30
	// recordingTimeout bounds the whole recording.
	recordingTimeout = 3 * time.Minute
)

// orders plays the sample: an order goes through the chain, all fall asleep, and another one wakes them again.
const orders = "see:recorder; gone:preparing; see:3 delivered; gone:● ready; pause:1500ms; type:p; see:6 delivered; gone:● ready; pause:2s"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	out := flag.String("out", "docs/images/dev.svg", "the `file` to write")
	steps := flag.String("script", orders, "what to wait for and to type: see:TEXT, gone:TEXT, type:KEYS and pause:TIME, with ; between them")
	flag.Parse()
	arguments := flag.Args()
	if len(arguments) == 0 {
		arguments = []string{"bin/rouse", "dev", "samples/orders", "--fresh", "--publish", "samples/orders/events/order-received.json"}
	}
	play, err := parse(*steps)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, recordingTimeout)
	defer cancel()
	// The variables of the user's own terminal do not hold for this one.
	command := exec.CommandContext(ctx, arguments[0], arguments[1:]...) //nolint:gosec // the command that was asked for
	command.Env = append(os.Environ(), "TERM=xterm-256color", "COLORTERM=", "NO_COLOR=", "CI=")
	film, err := record(ctx, command, play)
	if err != nil {
		return fmt.Errorf("record %s: %w", strings.Join(arguments, " "), err)
	}
	picture := draw(film)
	if err := os.MkdirAll(filepath.Dir(*out), 0o755); err != nil { //nolint:gosec // a folder of the repository
		return fmt.Errorf("make the folder of the picture: %w", err)
	}
	if err := os.WriteFile(*out, picture, 0o644); err != nil { //nolint:gosec // a picture of the repository
		return fmt.Errorf("write the picture: %w", err)
	}
	_, _ = fmt.Fprintf(os.Stdout, "%s: %d frames, %s, %d KB\n", *out, len(film.frames), film.length.Round(time.Second/10), len(picture)/1024)
	return nil
}
