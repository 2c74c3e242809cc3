package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// keeperArgument makes a process the keeper. No command has such a flag, so that a binary that does not call Keep fails at once.
	keeperArgument = "--keep-process-groups"
	keeperGreeting = "keeping\n"
	greetingWithin = 30 * time.Second
)

// Keep runs the keeper and does not return when the process was started as the keeper. Otherwise it does nothing.
func Keep() {
	if len(os.Args) != 2 || os.Args[1] != keeperArgument {
		return
	}
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP) // it exits when the pipe is closed
	if _, err := io.WriteString(os.Stdout, keeperGreeting); err == nil {
		keep(os.Stdin, func(group int) { _ = syscall.Kill(-group, syscall.SIGKILL) })
	}
	os.Exit(0)
}

// keep reads process groups, one per line: "+7" started, "-7" ended. At the end of orders it kills every group that is left.
func keep(orders io.Reader, kill func(group int)) {
	groups := map[int]struct{}{}
	for lines := bufio.NewScanner(orders); lines.Scan(); {
		group, err := strconv.Atoi(lines.Text()) // parses the sign, too
		switch {
		case err != nil || group == 1: // kill would signal every process
		case group > 1:
			groups[group] = struct{}{}
		default:
			delete(groups, -group)
		}
	}
	for group := range groups {
		kill(group)
	}
}

// keeper is the Supervisor's handle of the keeper process.
type keeper struct {
	command *exec.Cmd
	mu      sync.Mutex
	orders  io.WriteCloser
}

func startKeeper() (*keeper, error) {
	own, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's path: %w", err)
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create a pipe: %w", err)
	}
	defer func() { _ = read.Close() }()
	// A process group of its own shields it from Ctrl-C, and / is a folder that is never removed.
	command := &exec.Cmd{
		Path: own, Args: []string{own, keeperArgument}, Dir: "/", Stdout: write,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true},
	}
	orders, err := command.StdinPipe()
	if err != nil {
		_ = write.Close()
		return nil, fmt.Errorf("create a pipe: %w", err)
	}
	err = command.Start()
	_ = write.Close()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", own, err)
	}
	k := &keeper{command: command, orders: orders}
	if err := awaitGreeting(read); err != nil {
		_ = command.Process.Kill()
		_ = k.end()
		return nil, err
	}
	return k, nil
}

func awaitGreeting(from *os.File) error {
	if err := from.SetReadDeadline(time.Now().Add(greetingWithin)); err != nil {
		return fmt.Errorf("set the read deadline: %w", err)
	}
	greeting := make([]byte, len(keeperGreeting))
	if _, err := io.ReadFull(from, greeting); err != nil || string(greeting) != keeperGreeting {
		return errors.Join(errors.New("it did not respond: main has to call process.Keep first"), err)
	}
	return nil
}

func (k *keeper) guard(group int) error { return k.order("+", group) }

// release ignores the error: it fails only when the keeper is gone.
func (k *keeper) release(group int) { _ = k.order("-", group) }

func (k *keeper) order(what string, group int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, err := io.WriteString(k.orders, what+strconv.Itoa(group)+"\n")
	return err
}

// end stops the keeper, which has no group left.
func (k *keeper) end() error {
	k.mu.Lock()
	err := k.orders.Close()
	k.mu.Unlock()
	var exit *exec.ExitError
	if waited := k.command.Wait(); waited != nil && !errors.As(waited, &exit) { // being killed is no failure at this point
		err = errors.Join(err, waited)
	}
	return err
}
