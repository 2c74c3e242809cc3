package verbs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Rouse is the command rouse, with the flags that select a running Rouse.
type Rouse struct {
	Program string   // built
	Where   []string // flags of every command: none for the local mode, --context and the like for a cluster
	Env     []string // in addition to that of this process
}

// Build compiles the command from the repository at root into a folder, and returns its path.
func Build(ctx context.Context, root, folder string) (string, error) {
	program := filepath.Join(folder, "rouse")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "./cmd/rouse")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build rouse: %w: %s", err, out)
	}
	return program, nil
}

// Command returns a command, which is interrupted when ctx ends.
func (r Rouse) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, r.Program, slices.Concat(args, r.Where)...)
	cmd.Env = append(os.Environ(), r.Env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// Run runs a command and returns its output.
func (r Rouse) Run(ctx context.Context, args ...string) ([]byte, error) {
	cmd := r.Command(ctx, args...)
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("rouse %v: %w: %s", args, err, problem.Bytes())
	}
	return out.Bytes(), nil
}

// Read runs a command and decodes its JSON output.
func (r Rouse) Read(ctx context.Context, into any, args ...string) error {
	out, err := r.Run(ctx, append(args, "-o", "json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, into); err != nil {
		return fmt.Errorf("rouse %v: %w in %s", args, err, out)
	}
	return nil
}

// Follow passes the lines of a running command to take, until take returns true or ctx ends.
func (r Rouse) Follow(ctx context.Context, take func(line []byte) (enough bool), args ...string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	cmd := r.Command(ctx, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("rouse %v: %w", args, err)
	}
	var problem bytes.Buffer
	cmd.Stderr = &problem
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("rouse %v: %w", args, err)
	}
	found := false
	for lines := bufio.NewScanner(out); !found && lines.Scan(); {
		found = take(lines.Bytes())
	}
	stop()
	if err := cmd.Wait(); !found {
		return fmt.Errorf("rouse %v ended before its time: %w: %s", args, err, problem.Bytes())
	}
	return nil
}
