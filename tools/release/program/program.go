package program

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Program is one that is run.
type Program struct {
	Dir string
	Env []string // beside that of this process
}

// killDelay is how long a program has to end after it was interrupted.
const killDelay = 10 * time.Second

// Run returns what the program printed.
func (p Program) Run(ctx context.Context, name string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, name, args...)
	command.Dir, command.Env, command.WaitDelay = p.Dir, append(os.Environ(), p.Env...), killDelay
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	var out, problems bytes.Buffer
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(problems.String()))
	}
	return out.String(), nil
}
