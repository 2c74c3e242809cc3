package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

// platforms are the platforms of releases.
const platforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out, messages io.Writer) int {
	flags := flag.NewFlagSet("licenses", flag.ContinueOnError)
	flags.SetOutput(messages)
	dir := flags.String("C", ".", "the module of the binaries")
	file := flags.String("o", "", "write the notices here; without it they are checked alone")
	wanted := flags.String("platforms", platforms, "platforms that the binaries are for, separated by commas")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	all, err := collect(ctx, *dir, strings.Split(*wanted, ","), flags.Args())
	if err == nil {
		err = judgeAll(all, exceptions())
	}
	if err == nil && *file != "" {
		err = write(*file, notices(all))
	}
	if err != nil {
		_, _ = fmt.Fprintln(messages, "licenses:", err)
		return 1
	}
	_, _ = fmt.Fprintf(out, "licenses: modules=%d %s\n", len(all), counts(all))
	return 0
}

func write(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // as any folder of a build
		return err
	}
	return os.WriteFile(file, []byte(text), 0o644) //nolint:gosec // everybody may read notices
}

// judgeAll joins the problems of all modules.
func judgeAll(all []component, allowed map[string]exception) error {
	var problems []error
	for _, one := range all {
		problems = append(problems, judge(one, allowed))
	}
	for path := range allowed {
		if !contains(all, path) {
			problems = append(problems, fmt.Errorf("%s has an exception and is not in any binary: remove the exception", path))
		}
	}
	return errors.Join(problems...)
}

func contains(all []component, path string) bool {
	for _, one := range all {
		if one.path == path {
			return true
		}
	}
	return false
}
