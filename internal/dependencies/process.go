package dependencies

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/rouse-run/rouse/runtimes/language"
)

const (
	// tailSize is what is kept of a child's output to find out why it failed.
	tailSize = 64 << 10
	// grace bounds how long a child may take to end by itself.
	grace = 5 * time.Second
)

// Command is a program to start.
type Command struct {
	Dir   string
	Env   []string
	Args  []string
	Input string
	Guard Guard // nil: none
}

// Guard is called with a process group when it begins, and ends it should this process be killed. The function that it
// returns is called when the group has ended.
type Guard func(group int) (release func())

// Ended is how a command ended.
type Ended struct {
	Output string // the last of it
	Err    error  // nil when it succeeded
	Killed bool   // by the kernel, which takes memory back in this way
}

// Run starts a command in a process group of its own, so that what it starts ends with it, and copies its
// output to out.
func Run(ctx context.Context, c Command, out io.Writer) Ended {
	kept := &tail{}
	child := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...) //nolint:gosec // the caller's own programs
	child.Dir, child.Env = c.Dir, c.Env
	child.Stdin = strings.NewReader(c.Input)
	output := io.MultiWriter(kept, out)
	child.Stdout, child.Stderr = output, output
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	child.Cancel = func() error { return syscall.Kill(-child.Process.Pid, syscall.SIGTERM) }
	child.WaitDelay = grace
	err := child.Start()
	if err == nil {
		release := func() {}
		if c.Guard != nil {
			release = c.Guard(child.Process.Pid)
		}
		err = child.Wait()
		_ = syscall.Kill(-child.Process.Pid, syscall.SIGKILL) // what is left of the group
		release()
	}
	result := Ended{Output: kept.String(), Err: err}
	if failed := (&exec.ExitError{}); errors.As(err, &failed) && ctx.Err() == nil {
		if status, ok := failed.Sys().(syscall.WaitStatus); ok {
			result.Killed = status.Signaled() && status.Signal() == syscall.SIGKILL
		}
	}
	return result
}

// tail keeps the end of what is written to it.
type tail struct{ text bytes.Buffer }

func (t *tail) Write(text []byte) (int, error) {
	t.text.Write(text)
	if excess := t.text.Len() - 2*tailSize; excess > 0 {
		t.text.Next(excess + tailSize)
	}
	return len(text), nil
}

func (t *tail) String() string {
	text := t.text.Bytes()
	return string(text[max(len(text)-tailSize, 0):])
}

// Failure says why dependencies cannot be installed, and what to do about it.
type Failure struct { //nolint:errname // a failed installation, which is said as it is
	Reason  language.Reason
	Message string
	// Log has the last lines that the package manager printed.
	Log string
}

// Error is the reason and the message.
func (f *Failure) Error() string { return fmt.Sprintf("%s: %s", f.Reason, f.Message) }

const logLines = 40

// failed is what every package manager has in common; the rest is the language's to classify.
func (r Request) failed(installed Ended, log string) *Failure {
	failed := &Failure{Log: lastLines(installed.Output, logLines)}
	switch {
	case errors.Is(installed.Err, exec.ErrNotFound):
		failed.Reason = language.InstallFailed
		failed.Message = r.Site.Name + " has no package manager (" + installed.Err.Error() + "); " + r.Site.Manager
	case installed.Killed || outOfMemory.MatchString(installed.Output):
		failed.Reason = language.OutOfMemory
		failed.Message = "installing the dependencies needs more memory; " + r.Site.Memory
	case outOfSpace.MatchString(installed.Output):
		failed.Reason = language.ImageTooLarge
		failed.Message = r.Site.Space
	default:
		failed.Reason, failed.Message = r.Language.Packages.Classify(language.Failed{
			Output: installed.Output, Log: log, Manifest: r.Manifest, Site: r.Site,
		})
	}
	return failed
}

var (
	outOfMemory = regexp.MustCompile(`JavaScript heap out of memory|(?m)^MemoryError|Cannot allocate memory|Killed signal terminated program|(?m): signal: killed$`)
	outOfSpace  = regexp.MustCompile(`ENOSPC|No space left on device`)
)

func lastLines(text string, count int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(len(lines)-count, 0):], "\n")
}
