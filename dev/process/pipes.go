package process

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
)

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
