package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// step is a command with the file of its output.
type step struct {
	dir   string
	argv  []string
	log   string
	grace time.Duration // time to end after SIGTERM, before SIGKILL
}

// run waits for the command's end. When ctx is done, it ends the command's process group, and all processes that the
// command started in other groups. Output is written to the file rather than a pipe, which a remaining process would
// hold open.
func (s step) run(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.log), 0o755); err != nil { //nolint:gosec // logs are not secret
		return err
	}
	log, err := os.Create(s.log)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	command := exec.CommandContext(ctx, s.argv[0], s.argv[1:]...) //nolint:gosec // the commands are the project's own
	command.Dir, command.Stdout, command.Stderr = s.dir, log, log
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var started []int
	command.Cancel = func() error {
		started = descendants(command.Process.Pid)
		return syscall.Kill(-command.Process.Pid, syscall.SIGTERM)
	}
	command.WaitDelay = s.grace
	if err := command.Start(); err != nil {
		return fmt.Errorf("start %s: %w", s.argv[0], err)
	}
	err = command.Wait()
	if ctx.Err() != nil {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
		for _, process := range started {
			_ = syscall.Kill(process, syscall.SIGKILL)
		}
	}
	return err
}

// descendants lists the processes that a process and its children started. It is empty on systems without /proc.
func descendants(process int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, _ := os.ReadFile(path)                      //nolint:gosec // of a process
		fields := text[bytes.LastIndexByte(text, ')')+1:] // the preceding name may contain any characters
		var state string
		var child, parent int
		if _, err := fmt.Sscan(string(fields), &state, &parent); err != nil {
			continue // it has ended
		}
		if _, err := fmt.Sscan(string(text), &child); err == nil {
			children[parent] = append(children[parent], child)
		}
	}
	all := []int{process}
	for n := 0; n < len(all); n++ {
		all = append(all, children[all[n]]...)
	}
	return all[1:]
}

// follow copies what is written to a file until stop is called, which copies the rest.
func follow(out io.Writer, path string) (stop func()) {
	ended, finished := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(finished)
		var file *os.File
		for last := false; ; {
			if file == nil {
				file, _ = os.Open(path) //nolint:gosec // a log
			}
			if file != nil {
				_, _ = io.Copy(out, file)
			}
			if last {
				_ = file.Close()
				return
			}
			select {
			case <-ended:
				last = true
			case <-time.After(200 * time.Millisecond):
			}
		}
	}()
	return func() { close(ended); <-finished }
}

// together is a writer for concurrent use.
type together struct {
	mutex sync.Mutex
	out   io.Writer
}

func (t *together) Write(text []byte) (int, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return t.out.Write(text)
}
