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
	// tailSize is the length of the end of a child's output that is kept to classify its failure.
	tailSize = 64 << 10
	// grace is the time that a child has to end after SIGTERM.
	grace = 5 * time.Second
)

// Command is a program to start.
type Command struct {
	Dir   string
	Env   []string
	Args  []string
	Input string
	Guard Guard // may be nil
}

// Guard is called with a new process group, and kills the group if this process is killed. The returned function is
// called after the group has ended.
type Guard func(group int) (release func())

// Ended is the outcome of a command.
type Ended struct {
	Output string // the end of its output
	Err    error  // nil when it succeeded
	Killed bool   // by the kernel's OOM killer
}

// Run runs a command in a process group of its own, which ends as a whole, and copies the output to out.
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
		_ = syscall.Kill(-child.Process.Pid, syscall.SIGKILL) // the remaining processes of the group
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

// tail keeps the end of the written text.
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

// Failure describes why dependencies cannot be installed, and the remedy.
type Failure struct { //nolint:errname // a failed installation, which is said as it is
	Reason  language.Reason
	Message string
	// Log contains the last lines of the package manager.
	Log string
}

// Error returns the reason and the message.
func (f *Failure) Error() string { return fmt.Sprintf("%s: %s", f.Reason, f.Message) }

const logLines = 40

// failed handles the failures that all package managers share; the language classifies the others.
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
