package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, out, messages io.Writer) int {
	flags := flag.NewFlagSet("signoff", flag.ContinueOnError)
	flags.SetOutput(messages)
	dir := flags.String("C", ".", "the repository")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if flags.NArg() != 1 {
		_, _ = fmt.Fprintln(messages, "signoff: name one range of commits, as in origin/main..HEAD")
		return 2
	}
	commits, err := read(ctx, *dir, flags.Arg(0))
	if err == nil {
		err = judge(commits)
	}
	if err != nil {
		_, _ = fmt.Fprintf(messages, "signoff: %v\n", err)
		return 1
	}
	_, _ = fmt.Fprintf(out, "signoff: commits=%d\n", len(commits))
	return 0
}

type commit struct {
	id, subject, author string
	merge               bool
	signers             []string // the values of Signed-off-by
}

// Separators that no message has.
const field, record = "\x1f", "\x1e"

func read(ctx context.Context, dir, revisions string) ([]commit, error) {
	const format = "--format=%h%x1f%s%x1f%ae%x1f%P%x1f%(trailers:key=Signed-off-by,valueonly)%x1e"
	command := exec.CommandContext(ctx, "git", "-C", dir, "log", format, "--end-of-options", revisions) //nolint:gosec // no flag can be named
	var problems bytes.Buffer
	command.Stderr = &problems
	printed, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("git log: %w: %s", err, strings.TrimSpace(problems.String()))
	}
	var commits []commit
	for text := range strings.SplitSeq(string(printed), record) {
		fields := strings.Split(strings.TrimPrefix(text, "\n"), field)
		const count = 5
		if len(fields) != count {
			continue // behind the last one
		}
		commits = append(commits, commit{
			id: fields[0], subject: fields[1], author: fields[2], merge: strings.Contains(fields[3], " "),
			signers: strings.Split(strings.TrimSpace(fields[4]), "\n"),
		})
	}
	return commits, nil
}

// judge names the commits that their author has not signed off.
func judge(commits []commit) error {
	var problems []error
	for _, one := range commits {
		if !one.merge && !one.signed() {
			problems = append(problems, fmt.Errorf("%s (%s) has no line \"Signed-off-by\" of its author <%s>: git rebase --signoff", one.id, one.subject, one.author))
		}
	}
	return errors.Join(problems...)
}

func (c commit) signed() bool {
	for _, signer := range c.signers {
		_, address, found := strings.Cut(signer, "<")
		if found && strings.EqualFold(strings.TrimSuffix(strings.TrimSpace(address), ">"), c.author) {
			return true
		}
	}
	return false
}
