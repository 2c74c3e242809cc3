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

// Command is what to run.
type Command struct {
	// Path is the program, absolute.
	Path string
	// Args come after the program's name.
	Args []string
	// Env is the whole environment. FUNC_PORT and FUNC_READY_FD are added to it.
	Env []string
	// Dir is where the program starts.
	Dir string
}

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

// outlive is how long lines are awaited after the group was killed: only a program that has left its group can still
// hold the pipes then.
const outlive = 500 * time.Millisecond

// Process is a program that was started, with its children.
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

// Ready is closed when the program listens.
func (p *Process) Ready() <-chan struct{} { return p.ready }

// Address is where it listens, host:port; empty before it is ready.
func (p *Process) Address() string {
	select {
	case <-p.ready:
		return p.address
	default:
		return ""
	}
}

// Done is closed when the program has ended, what was left of its group was killed, and all lines were handed on.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the program ended; nil before that, and when it ended with status 0.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Stop asks the program to end, kills its group after the grace, and returns when it is done. Only the program is
// asked, as in a container, and only once: a server that gets the signal from its parent and from us would take the
// second for an order to drop its requests.
func (p *Process) Stop(grace time.Duration) {
	if grace > 0 {
		p.ask.Do(func() { _ = p.command.Process.Signal(syscall.SIGTERM) }) // fails when it has ended
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

// kill ends the whole group. It fails only when there is none any more.
func (p *Process) kill() { _ = syscall.Kill(-p.group(), syscall.SIGKILL) }

// attend reads what the program prints until it ends, and then kills what it left.
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

// awaitPort reads the port, which is the first and only line.
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

// read hands on lines until the pipe ends.
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

// readyDescriptor is the first that os/exec gives to ExtraFiles.
const readyDescriptor = 3

// Variables of the runtimes' servers.
const (
	envPort  = "FUNC_PORT"
	envReady = "FUNC_READY_FD"
)

// pipe has an end for us, which reads, and one for the program.
type pipe struct{ ours, theirs *os.File }

// pipes lead from a program to us.
type pipes struct{ stdout, stderr, ready pipe }

func openPipes() (*pipes, error) {
	p := &pipes{}
	for _, end := range p.all() {
		ours, theirs, err := os.Pipe()
		if err != nil {
			p.closeTheirs()
			p.closeOurs()
			return nil, fmt.Errorf("make a pipe: %w", err)
		}
		*end = pipe{ours: ours, theirs: theirs}
	}
	return p, nil
}

func (p *pipes) all() []*pipe { return []*pipe{&p.stdout, &p.stderr, &p.ready} }

// closeTheirs closes the program's ends, which it has copies of. Errors mean that there is nothing to close.
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

// attach makes what os/exec starts.
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

// maxLine is the longest line that is handed on whole. Longer ones come in pieces.
const maxLine = 16 << 10

type lineReader struct{ from *bufio.Reader }

func newLineReader(from io.Reader) lineReader { return lineReader{bufio.NewReaderSize(from, maxLine)} }

// next is the next line without its end; the last one may have none.
func (r lineReader) next() (string, error) {
	text, _, err := r.from.ReadLine()
	if err != nil {
		return "", err
	}
	return strings.ToValidUTF8(string(text), "\uFFFD"), nil
}
