package process

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"sync"
)

// ErrClosed is the error of Start after Close.
var ErrClosed = errors.New("the supervisor is closed")

// Supervisor starts processes and owns them.
type Supervisor struct {
	keeper *keeper
	starts chan start // to the one thread that starts processes
	thread sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	processes map[*Process]struct{}
}

// start is an order to start a program, and where the outcome goes.
type start struct {
	command *exec.Cmd
	failed  chan error
}

// New starts a Supervisor with its keeper. Close ends both. It fails in a binary that does not call Keep.
func New() (*Supervisor, error) {
	kept, err := startKeeper()
	if err != nil {
		return nil, fmt.Errorf("start the process that ends Functions if this one is killed: %w", err)
	}
	s := &Supervisor{keeper: kept, starts: make(chan start), processes: map[*Process]struct{}{}}
	s.thread.Go(s.startAll)
	return s, nil
}

// startAll starts every program from one thread that lives as long as the Supervisor: the kernel sends the parent's
// death signal when the thread ends, not the process (https://go.dev/issue/27505).
func (s *Supervisor) startAll() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread() // so that the thread goes back and does not end
	for order := range s.starts {
		order.failed <- order.command.Start()
	}
}

// Start runs a command. Each line that it prints goes to line, with stream stdout or stderr, one at a time.
func (s *Supervisor) Start(command Command, line func(stream, text string)) (*Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	pipes, err := openPipes()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	p := &Process{
		command: pipes.attach(command), line: line,
		ready: make(chan struct{}), done: make(chan struct{}),
	}
	order := start{command: p.command, failed: make(chan error)}
	s.starts <- order
	err = <-order.failed
	pipes.closeTheirs()
	if err != nil {
		pipes.closeOurs()
		return nil, fmt.Errorf("start %s: %w", command.Path, err)
	}
	guarded := s.keeper.guard(p.group())
	s.processes[p] = struct{}{}
	go func() { // ends with the process; Close waits for it through done
		p.attend(pipes)
		s.forget(p)
		close(p.done)
	}()
	if guarded != nil {
		p.kill()
		return nil, fmt.Errorf("start %s: its keeper is gone, start again: %w", command.Path, guarded)
	}
	return p, nil
}

// Guard has the keeper end a process group that another package started. A missing keeper is noticed at the next Start.
func (s *Supervisor) Guard(group int) (release func()) {
	_ = s.keeper.guard(group)
	return func() { s.keeper.release(group) }
}

// forget lets go of a process that has ended.
func (s *Supervisor) forget(p *Process) {
	s.keeper.release(p.group())
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.processes, p)
}

// Close kills what still runs and ends the keeper. Nothing can be started any more.
func (s *Supervisor) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	left := make([]*Process, 0, len(s.processes))
	for p := range s.processes {
		left = append(left, p)
	}
	s.mu.Unlock()
	for _, p := range left {
		p.kill()
	}
	for _, p := range left {
		<-p.done
	}
	close(s.starts)
	s.thread.Wait()
	return s.keeper.end()
}
