package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Role is the code of a process, which runs until ctx ends. It calls ready once, with its addresses.
type Role func(ctx context.Context, ready func(where string), args []string) error

const (
	roleFlag   = "rig-role"
	readyWord  = "ready "
	startBound = 30 * time.Second
	stopBound  = 45 * time.Second
)

// Main is the main function of a program with a single tool. It exits with 1 when the tool fails.
func Main(tool func(ctx context.Context, r *Rig) error, roles map[string]Role) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := Run(ctx, "", os.Args[1:], tool, roles)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1) //nolint:gocritic // stop only matters to a process that goes on
	}
}

// Run runs the role that args name, or otherwise the tool. The program starts itself for its roles: subcommand is the
// argument that selects this tool, and empty in a program with a single tool.
func Run(ctx context.Context, subcommand string, args []string, tool func(context.Context, *Rig) error, roles map[string]Role) error {
	if len(args) > 1 && args[0] == roleFlag {
		role, ok := roles[args[1]]
		if !ok {
			role, ok = ownRoles()[args[1]]
		}
		if !ok {
			return fmt.Errorf("there is no role %q", args[1])
		}
		return role(ctx, func(where string) { fmt.Println(readyWord + where) }, args[2:])
	}
	r, err := newRig()
	if err != nil {
		return err
	}
	if subcommand != "" {
		r.self = []string{subcommand}
	}
	return errors.Join(tool(ctx, r), r.Close())
}

func ownRoles() map[string]Role { return map[string]Role{"nats": natsRole, "bridge": bridgeRole} }

// Rig owns the processes and files of one run of a tool.
type Rig struct {
	dir   string
	self  []string // arguments of this program before those of a role
	limit int64    // bytes of memory of a bridge, 0 for no limit

	mu        sync.Mutex
	processes []*Process
}

func newRig() (*Rig, error) {
	dir, err := os.MkdirTemp("", "rouse-rig-")
	if err != nil {
		return nil, fmt.Errorf("make a directory: %w", err)
	}
	return &Rig{dir: dir}, nil
}

// Dir returns a directory that Close removes.
func (r *Rig) Dir() string { return r.dir }

// Close kills the running processes and removes their files.
func (r *Rig) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.processes {
		p.Kill()
		if p.group != nil {
			p.group.remove()
		}
	}
	return os.RemoveAll(r.dir)
}

// Process is a running role.
type Process struct {
	Where string // the addresses that the role reported when it was ready
	role  string
	group *cgroup // may be nil
	cmd   *exec.Cmd
	done  chan struct{}
	err   error
}

// Address returns one of the addresses that the role reported.
func (p *Process) Address(i int) string { return strings.Fields(p.Where)[i] }

// Start runs a role and returns when it is ready. It is safe for concurrent use.
func (r *Rig) Start(role string, args ...string) (*Process, error) { return r.start(nil, role, args) }

// start is Start in a control group, nil for the tool's.
func (r *Rig) start(group *cgroup, role string, args []string) (*Process, error) {
	cmd := exec.Command("/proc/self/exe", slices.Concat(r.self, []string{roleFlag, role}, args)...) //nolint:noctx // Stop and Kill end it
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if group != nil {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(group.dir.Fd())
	}
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", role, err)
	}
	p := &Process{role: role, group: group, cmd: cmd, done: make(chan struct{})}
	r.mu.Lock()
	r.processes = append(r.processes, p)
	r.mu.Unlock()
	ready := make(chan string, 1)
	go func() {
		defer close(p.done)
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			if where, ok := strings.CutPrefix(lines.Text(), readyWord); ok {
				ready <- where
				continue
			}
			fmt.Println(lines.Text())
		}
		_, _ = io.Copy(io.Discard, output)
		p.err = cmd.Wait()
	}()
	select {
	case p.Where = <-ready:
		return p, nil
	case <-p.done:
		return nil, fmt.Errorf("%s ended before it was ready: %w", role, p.err)
	case <-time.After(startBound):
		p.Kill()
		return nil, fmt.Errorf("%s is not ready after %s", role, startBound)
	}
}

// Stop terminates the process and waits for its end.
func (p *Process) Stop() error {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return p.err
	case <-time.After(stopBound):
		p.Kill()
		return fmt.Errorf("%s did not end within %s", p.role, stopBound)
	}
}

// Kill kills the process like a crash, and waits for its end.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// Freeze suspends the process before a Kill: it makes no more writes or responses.
func (p *Process) Freeze() error { return p.cmd.Process.Signal(syscall.SIGSTOP) }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Run starts a program other than a role, and appends its output to a file. The tool has to detect when it is ready.
func (r *Rig) Run(name string, environment []string, path string, args ...string) (*Process, error) {
	output, err := os.OpenFile(r.Log(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = output.Close() }() // the process has it too
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

// Log returns the path of the output of programs with that name.
func (r *Rig) Log(name string) string { return filepath.Join(r.dir, name+".log") }
