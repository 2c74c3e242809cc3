package process

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Command is a program to run.
type Command struct {
	// Path is the absolute path of the program.
	Path string
	// Args are the arguments after the program's name.
	Args []string
	// Env is the complete environment, to which FUNC_PORT and FUNC_READY_FD are added.
	Env []string
	// Dir is the working directory.
	Dir string
}

// ErrClosed is returned by Start after Close.
var ErrClosed = errors.New("the supervisor is closed")

// Supervisor starts processes and owns them.
type Supervisor struct {
	keeper *keeper
	starts chan start // to the thread that starts processes
	thread sync.WaitGroup

	mu        sync.Mutex
	closed    bool
	processes map[*Process]struct{}
}

// start is a request to start a program, with a channel for the result.
type start struct {
	command *exec.Cmd
	failed  chan error
}

// New starts a Supervisor with its keeper. Close stops both. New fails in a binary that does not call Keep.
func New() (*Supervisor, error) {
	kept, err := startKeeper()
	if err != nil {
		return nil, fmt.Errorf("start the process that kills Functions if this one is killed: %w", err)
	}
	s := &Supervisor{keeper: kept, starts: make(chan start), processes: map[*Process]struct{}{}}
	s.thread.Go(s.startAll)
	return s, nil
}

// startAll starts every program from one thread that lives as long as the Supervisor: the kernel sends the parent death signal when the
// thread ends, not the process (https://go.dev/issue/27505).
func (s *Supervisor) startAll() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread() // so that the thread is reused instead of ended
	for order := range s.starts {
		order.failed <- order.command.Start()
	}
}

// Start runs a command. It calls line for each line that the command prints, with stream stdout or stderr, one at a time.
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

// Guard makes the keeper kill a process group that another package started. A missing keeper is detected by the next Start.
func (s *Supervisor) Guard(group int) (release func()) {
	_ = s.keeper.guard(group)
	return func() { s.keeper.release(group) }
}

// forget removes a process that ended.
func (s *Supervisor) forget(p *Process) {
	s.keeper.release(p.group())
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.processes, p)
}

// Close kills all running processes and stops the keeper. Start fails from then on.
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

// outlive bounds how long lines are read after the group was killed: only a program that left its group can still hold the pipes.
const outlive = 500 * time.Millisecond

// Process is a started program with its children.
type Process struct {
	command *exec.Cmd
	line    func(stream, text string)
	lines   sync.Mutex // one line at a time
	ask     sync.Once

	ready   chan struct{}
	address string // written before ready is closed
	done    chan struct{}
	err     error // written before done is closed
}

// Ready returns a channel that is closed when the program listens.
func (p *Process) Ready() <-chan struct{} { return p.ready }

// Address returns host:port of the program; empty before it is ready.
func (p *Process) Address() string {
	select {
	case <-p.ready:
		return p.address
	default:
		return ""
	}
}

// Done returns a channel that is closed when the program ended, the rest of its group was killed, and all lines were passed on.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns the error of the program's exit; nil before it, and for status 0.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Stop sends SIGTERM to the program, kills its group after the grace period, and returns when it is done. It signals only the program, as
// in a container, and only once: a server takes a second signal as an order to drop its requests.
func (p *Process) Stop(grace time.Duration) {
	if grace > 0 {
		p.ask.Do(func() { _ = p.command.Process.Signal(syscall.SIGTERM) }) // fails when it ended
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.done:
			return
		case <-timer.C:
		}
	}
	p.kill()
	<-p.done
}

func (p *Process) group() int { return p.command.Process.Pid }

// kill kills the group. It fails only when the group is gone.
func (p *Process) kill() { _ = syscall.Kill(-p.group(), syscall.SIGKILL) }

// attend reads the output of the program until it ends, and then kills the rest of its group.
func (p *Process) attend(pipes *pipes) {
	var readers sync.WaitGroup
	readers.Go(func() { p.read("stdout", pipes.stdout.ours) })
	readers.Go(func() { p.read("stderr", pipes.stderr.ours) })
	readers.Go(func() { p.awaitPort(pipes.ready.ours) })
	p.err = p.command.Wait()
	p.kill()
	deadline := time.Now().Add(outlive)
	for _, end := range pipes.all() {
		_ = end.ours.SetReadDeadline(deadline)
	}
	readers.Wait()
	pipes.closeOurs()
}

// awaitPort reads the port, the first and only line.
func (p *Process) awaitPort(from *os.File) {
	defer func() { _ = from.Close() }()
	text, err := bufio.NewReaderSize(from, len("65535\n")).ReadSlice('\n')
	if err != nil {
		return
	}
	port, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 16)
	if err != nil || port == 0 {
		return
	}
	p.address = net.JoinHostPort("127.0.0.1", strconv.FormatUint(port, 10))
	close(p.ready)
}

// read passes on lines until the pipe is closed.
func (p *Process) read(stream string, from *os.File) {
	for reader := newLineReader(from); ; {
		text, err := reader.next()
		if err != nil {
			return
		}
		p.lines.Lock()
		p.line(stream, text)
		p.lines.Unlock()
	}
}

// readyDescriptor is the first descriptor that os/exec assigns to ExtraFiles.
const readyDescriptor = 3

// Environment variables of the runtimes' servers.
const (
	envPort  = "FUNC_PORT"
	envReady = "FUNC_READY_FD"
)

// pipe has one end to read, and one for the program.
type pipe struct{ ours, theirs *os.File }

// pipes lead from a program to this process.
type pipes struct{ stdout, stderr, ready pipe }

func openPipes() (*pipes, error) {
	p := &pipes{}
	for _, end := range p.all() {
		ours, theirs, err := os.Pipe()
		if err != nil {
			p.closeTheirs()
			p.closeOurs()
			return nil, fmt.Errorf("create a pipe: %w", err)
		}
		*end = pipe{ours: ours, theirs: theirs}
	}
	return p, nil
}

func (p *pipes) all() []*pipe { return []*pipe{&p.stdout, &p.stderr, &p.ready} }

// closeTheirs closes the program's ends, of which it has copies. Errors mean that they are closed already.
func (p *pipes) closeTheirs() {
	for _, end := range p.all() {
		_ = end.theirs.Close()
	}
}

func (p *pipes) closeOurs() {
	for _, end := range p.all() {
		_ = end.ours.Close()
	}
}

// attach returns the exec.Cmd with the pipes attached.
func (p *pipes) attach(command Command) *exec.Cmd {
	return &exec.Cmd{
		Path:        command.Path,
		Args:        append([]string{command.Path}, command.Args...),
		Env:         append(slices.Clip(command.Env), envPort+"=0", envReady+"="+strconv.Itoa(readyDescriptor)),
		Dir:         command.Dir,
		Stdout:      p.stdout.theirs,
		Stderr:      p.stderr.theirs,
		ExtraFiles:  []*os.File{p.ready.theirs},
		SysProcAttr: ownGroup(),
	}
}

// maxLine bounds the length of a line. Longer lines are split.
const maxLine = 16 << 10

type lineReader struct{ from *bufio.Reader }

func newLineReader(from io.Reader) lineReader { return lineReader{bufio.NewReaderSize(from, maxLine)} }

// next returns the next line without its line end.
func (r lineReader) next() (string, error) {
	text, _, err := r.from.ReadLine()
	if err != nil {
		return "", err
	}
	return strings.ToValidUTF8(string(text), "\uFFFD"), nil
}
