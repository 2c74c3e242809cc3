package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// tailLines is the number of a log's last lines in an error: enough for a compiler's or a daemon's last messages.
const tailLines = 25

// Command is one run of a program.
type Command struct {
	Name  string
	Args  []string
	Dir   string
	Env   []string // in addition to those of this process
	Stdin io.Reader
	Log   string // file to which the output is appended; empty: only kept for the error
}

// Error is the error of a program that failed, with the end of its output.
type Error struct {
	Command string
	Log     string
	Tail    string
	Err     error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %v", e.Command, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Run runs the program and returns its standard output.
func (c Command) Run(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, c.Name, c.Args...)
	cmd.Dir = c.Dir
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stdin = c.Stdin
	// The program runs in a process group of its own: Ctrl-C reaches only this process, which then terminates the
	// program and its children. If this process is killed, the kernel kills the program; it does so when the starting
	// thread ends, so the thread is locked.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	defer func() {
		if ctx.Err() != nil && cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // processes that ignored the signal
		}
	}()

	var stdout bytes.Buffer
	var all sharedBuffer
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&stdout, &all), &all
	if c.Log != "" {
		file, err := openLog(c.Log)
		if err != nil {
			return "", err
		}
		defer func() { _ = file.Close() }()
		cmd.Stdout, cmd.Stderr = io.MultiWriter(&stdout, file), file
	}
	if err := cmd.Run(); err != nil {
		return stdout.String(), &Error{Command: c.String(), Log: c.Log, Tail: c.tail(&all), Err: errors.Join(ctx.Err(), err)}
	}
	return stdout.String(), nil
}

// String returns the command as typed, shortened.
func (c Command) String() string {
	line := filepath.Base(c.Name) + " " + strings.Join(c.Args, " ")
	if len(line) > 160 {
		line = line[:160] + "..."
	}
	return line
}

func (c Command) tail(all *sharedBuffer) string {
	if c.Log != "" {
		return Tail(c.Log)
	}
	return lastLines(all.String())
}

// sharedBuffer is written concurrently by both outputs of a program.
type sharedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *sharedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *sharedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Tail returns the end of a log file, or an empty text when it cannot be read.
func Tail(log string) string {
	content, err := os.ReadFile(log)
	if err != nil {
		return ""
	}
	return lastLines(string(content))
}

func lastLines(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	return strings.Join(lines, "\n")
}

func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

// Await calls check until it returns nil. After limit it returns check's last error.
func Await(ctx context.Context, limit, pause time.Duration, what string, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s not within %s: %w", what, limit, err)
		case <-time.After(pause):
		}
	}
}
