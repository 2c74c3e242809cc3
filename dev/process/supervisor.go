package process

import (
	"errors"
	"time"
)

// Supervisor starts processes and owns them.
type Supervisor struct{}

// Keep makes this process the keeper and does not return, when it was started as that. Otherwise it does nothing.
func Keep() {}

// New starts a Supervisor with its keeper. Close ends it.
func New() (*Supervisor, error) { return &Supervisor{}, nil }

// Start runs a command. Each line that it prints goes to line, with stream stdout or stderr, one at a time.
func (s *Supervisor) Start(Command, func(stream, text string)) (*Process, error) {
	return nil, errors.New("not yet")
}

// Close kills what still runs, and ends the keeper.
func (s *Supervisor) Close() error { return nil }

// Process is a program that was started, with its children.
type Process struct{}

// Ready is closed when the program listens.
func (p *Process) Ready() <-chan struct{} { return nil }

// Address is where it listens, host:port, once it is ready.
func (p *Process) Address() string { return "" }

// Done is closed when the program and its whole group have ended and all lines were handed on.
func (p *Process) Done() <-chan struct{} { return nil }

// Err says how the program ended, once it is done; nil when it ended by itself with status 0.
func (p *Process) Err() error { return nil }

// Stop asks the group to end, kills it after the grace, and returns when all of it is gone.
func (p *Process) Stop(grace time.Duration) {}
