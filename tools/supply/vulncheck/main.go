package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"

	"golang.org/x/vuln/scan"
)

// defaultDatabase is that of the Go project.
const defaultDatabase = "https://vuln.go.dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, getenv func(string) string, out, messages io.Writer) int {
	flags := flag.NewFlagSet("vulncheck", flag.ContinueOnError)
	flags.SetOutput(messages)
	dir := flags.String("C", ".", "the module to check")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	result, err := check(ctx, *dir, databaseOf(getenv), flags.Args(), messages)
	if err != nil {
		_, _ = fmt.Fprintln(messages, "vulnerabilities:", err)
		return 1
	}
	text, ok := result.judge(getenv("VULNDB_REQUIRED") == "1")
	_, _ = fmt.Fprint(out, text)
	if !ok {
		return 1
	}
	return 0
}

func databaseOf(getenv func(string) string) string {
	if named := getenv("GOVULNDB"); named != "" {
		return named
	}
	return defaultDatabase
}

// check asks the database and, if it has an answer of these days, what of it is reachable.
func check(ctx context.Context, dir, database string, patterns []string, messages io.Writer) (outcome, error) {
	modified, err := lastModified(ctx, database)
	if err != nil {
		return outcome{unchecked: fmt.Sprintf("the database %s is unreachable: %v", database, err)}, nil
	}
	if reason := stale(modified, time.Now()); reason != "" {
		return outcome{unchecked: fmt.Sprintf("the database %s %s", database, reason)}, nil
	}
	var answer bytes.Buffer
	command := scan.Command(ctx, append([]string{"-C", dir, "-db", database, "-format", "json"}, patterns...)...)
	command.Stdout, command.Stderr = &answer, messages
	if err := command.Start(); err != nil {
		return outcome{}, err
	}
	if err := command.Wait(); err != nil {
		return outcome{}, fmt.Errorf("govulncheck: %w", err)
	}
	return read(&answer)
}
