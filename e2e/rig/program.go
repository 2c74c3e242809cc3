package rig

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// Run starts a program that is no role, whose output goes to the end of a file. It is the tool's to find out when it is ready.
func (r *Rig) Run(name string, environment []string, path string, args ...string) (*Process, error) {
	output, err := os.OpenFile(r.Log(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = output.Close() }() // the process has it, too
	cmd := exec.Command(path, args...)    //nolint:noctx // Stop and Kill end it
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stdout, cmd.Stderr, cmd.Env = output, output, append(os.Environ(), environment...)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &Process{role: name, cmd: cmd, done: make(chan struct{})}
	r.mu.Lock()
	r.processes = append(r.processes, p)
	r.mu.Unlock()
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	return p, nil
}

// Log is the file with the output of programs of that name.
func (r *Rig) Log(name string) string { return filepath.Join(r.dir, name+".log") }
