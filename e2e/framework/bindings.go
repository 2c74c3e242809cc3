package framework

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// bindingRuntime is the folder of the runtime of servicebinding.io, as features see it.
const bindingRuntime = "../bindings"

// BindingRuntime is a runtime of servicebinding.io that takes care of one namespace.
type BindingRuntime struct {
	// Hooked is true when its webhook is reached by the API server.
	Hooked bool
}

// StartBindingRuntime compiles the runtime into a folder and runs it until ctx ends. With webhook it also projects at
// admission, as far as the API server can reach this machine.
func (c *Cluster) StartBindingRuntime(ctx context.Context, folder, namespace string, webhook bool) (*BindingRuntime, error) {
	program := filepath.Join(folder, "bindings")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	build.Dir = bindingRuntime
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile the runtime: %w: %s", err, out)
	}
	args := []string{"-namespace", namespace}
	if webhook {
		args = append(args, "-webhook")
	}
	command := exec.CommandContext(ctx, program, args...)
	command.Dir, command.Stderr = bindingRuntime, os.Stderr
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 15 * time.Second
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("read what the runtime says: %w", err)
	}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start the runtime: %w", err)
	}
	runtime, lines := &BindingRuntime{}, bufio.NewScanner(out)
	for lines.Scan() {
		fmt.Println(namespace, lines.Text())
		if strings.Contains(lines.Text(), "webhook reached: true") {
			runtime.Hooked = true
		}
		if strings.Contains(lines.Text(), "bindings: ready") {
			go func() {
				for lines.Scan() {
					fmt.Println(namespace, lines.Text())
				}
				_ = command.Wait()
			}()
			return runtime, nil
		}
	}
	return nil, fmt.Errorf("the runtime ended: %w", command.Wait())
}
