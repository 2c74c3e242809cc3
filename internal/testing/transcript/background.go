package transcript

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
)

// background is a command that goes on while others run.
type background struct {
	command *exec.Cmd
	log     string
	// seen is how much of its output was compared.
	seen  int
	ended chan struct{}
}

// start runs a script in the background, where the session is now.
func (s *session) start(ctx context.Context, script string) (*background, error) {
	dir, env, err := s.surroundings()
	if err != nil {
		return nil, err
	}
	path, err := s.save(script)
	if err != nil {
		return nil, fmt.Errorf("save a script: %w", err)
	}
	log, err := os.Create(path + ".out")
	if err != nil {
		return nil, fmt.Errorf("keep the output: %w", err)
	}
	command := exec.CommandContext(ctx, "bash", "-e", path)
	command.Dir, command.Env, command.Stdout, command.Stderr = dir, env, log, log
	ownGroup(command)
	err = command.Start()
	_ = log.Close() // it is the command's
	if err != nil {
		return nil, fmt.Errorf("start bash: %w", err)
	}
	b := &background{command: command, log: path + ".out", ended: make(chan struct{})}
	go func() {
		defer close(b.ended)
		_ = command.Wait() // how it ends is seen from its output
	}()
	return b, nil
}

// fresh is its output that was not compared yet.
func (b *background) fresh() (string, error) {
	text, err := os.ReadFile(b.log)
	if err != nil {
		return "", fmt.Errorf("read the output: %w", err)
	}
	return string(text[min(b.seen, len(text)):]), nil
}

// interrupt does what Ctrl-C does, and waits for the end.
func (b *background) interrupt(ctx context.Context) error {
	if err := signal(b.command, syscall.SIGINT); err != nil {
		return err
	}
	select {
	case <-b.ended:
		return nil
	case <-ctx.Done():
		return errors.New("it does not end when it is interrupted")
	}
}

// kill ends it and all of its group.
func (b *background) kill() {
	_ = signal(b.command, syscall.SIGKILL) // nothing may be left of it
	<-b.ended
}

// over reports whether it has ended.
func (b *background) over() bool {
	select {
	case <-b.ended:
		return true
	default:
		return false
	}
}
