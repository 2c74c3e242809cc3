package process

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

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
