package dependencies

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	// tailSize is what is kept of a child's output to find out why it failed.
	tailSize = 64 << 10
	// grace is how long a child may take to end by itself.
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
