package transcript

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Options configure a run.
type Options struct {
	// Name is the name of the page, for messages.
	Name string
	// Dir is the initial working directory, and Env the environment.
	Dir string
	Env []string
	// Timeout bounds the time of one step.
	Timeout time.Duration
	// Progress is called with each step before it runs. It may be nil.
	Progress func(Step)
}

// pause is the interval between checks.
const pause = 100 * time.Millisecond

// player runs the steps of a page.
type player struct {
	Options
	session *session
	running []*background
}

// Play runs the steps. Its error contains the step, the expected and the actual output.
func Play(ctx context.Context, steps []Step, o Options) (err error) {
	scratch, err := os.MkdirTemp("", "transcript")
	if err != nil {
		return fmt.Errorf("make a folder for the output: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	bash, err := openSession(ctx, o, scratch)
	if err != nil {
		return err
	}
	p := &player{Options: o, session: bash}
	defer func() { p.close(ctx) }()
	for _, step := range steps {
		if o.Progress != nil {
			o.Progress(step)
		}
		if err := p.play(ctx, step); err != nil {
			return fmt.Errorf("%s:%d: %w", o.Name, step.Line, err)
		}
	}
	return nil
}

// close ends the running commands, the newest first, as a reader would.
func (p *player) close(ctx context.Context) {
	for _, newest := range slices.Backward(p.running) {
		ctx, cancel := context.WithTimeout(ctx, p.Timeout)
		_ = newest.interrupt(ctx) // killed in any case
		cancel()
		newest.kill()
	}
	p.session.close()
}

func (p *player) play(ctx context.Context, step Step) error {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = p.session.command.Cancel() }) // a step that times out ends the page
	defer stop()
	switch step.Kind {
	case Start:
		return p.start(ctx, step)
	case Follow:
		return p.follow(ctx, step.Want)
	case Interrupt:
		return p.interrupt(ctx)
	default:
		return p.run(ctx, step)
	}
}

func (p *player) run(ctx context.Context, step Step) error {
	var before error // of the previous attempt: the timeout cuts off the last one
	for {
		output, err := p.attempt(step)
		if err == nil {
			return nil
		}
		if ctx.Err() == nil || before == nil {
			before = fmt.Errorf("%w\n--- commands\n%s--- printed\n%s", err, step.Script, output)
		}
		if !step.Await || !wait(ctx) {
			return before
		}
	}
}

// attempt runs the commands once, and checks their exit code and output.
func (p *player) attempt(step Step) (output string, err error) {
	once := p.session.run
	if step.Await || step.Fails {
		once = p.session.try
	}
	output, err = once(step.Script)
	switch {
	case step.Fails && err == nil:
		return output, errors.New("it was to fail, and did not")
	case !step.Fails && err != nil:
		return output, err
	}
	if line, _ := missing(output, step.Want); line != "" {
		return output, fmt.Errorf("it did not print %q", line)
	}
	return output, nil
}

// wait pauses, and reports whether there is time left.
func wait(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

func (p *player) start(ctx context.Context, step Step) error {
	// A background command outlives the step's context, and is ended by close.
	started, err := p.session.start(context.WithoutCancel(ctx), step.Script)
	if err != nil {
		return err
	}
	p.running = append(p.running, started)
	return p.follow(ctx, step.Want)
}

// follow waits until the newest background command has printed the lines.
func (p *player) follow(ctx context.Context, want []string) error {
	newest := p.newest()
	if newest == nil {
		return errors.New("no command runs in the background")
	}
	for {
		ended := newest.over()
		output, err := newest.fresh()
		if err != nil {
			return err
		}
		line, rest := missing(output, want)
		if line == "" {
			newest.seen += len(output) - len(rest)
			return nil
		}
		if ended || !wait(ctx) {
			return fmt.Errorf("the command in the background did not print %q (ended: %t)\n--- printed since the last check\n%s", line, ended, output)
		}
	}
}

func (p *player) interrupt(ctx context.Context) error {
	newest := p.newest()
	if newest == nil {
		return errors.New("no command runs in the background")
	}
	if err := newest.interrupt(ctx); err != nil {
		return err
	}
	newest.kill()
	p.running = p.running[:len(p.running)-1]
	return nil
}

func (p *player) newest() *background {
	if len(p.running) == 0 {
		return nil
	}
	return p.running[len(p.running)-1]
}

// session is a bash that runs scripts one after the other.
type session struct {
	command *exec.Cmd
	input   io.WriteCloser
	answers *os.File
	status  *bufio.Scanner
	scratch string
	scripts int
}

// openSession starts a bash. The bash and its foreground processes are killed when ctx ends.
func openSession(ctx context.Context, o Options, scratch string) (*session, error) {
	command := exec.CommandContext(ctx, "bash", "--noprofile", "--norc")
	command.Dir, command.Env = o.Dir, o.Env
	ownGroup(command)
	input, err := command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("write to bash: %w", err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe for bash: %w", err)
	}
	command.ExtraFiles = []*os.File{writer}
	err = command.Start()
	_ = writer.Close() // owned by bash
	if err != nil {
		_ = reader.Close() // without a writer
		return nil, fmt.Errorf("start bash: %w", err)
	}
	return &session{command: command, input: input, answers: reader, status: bufio.NewScanner(reader), scratch: scratch}, nil
}

// ownGroup runs the command in a process group of its own, which is killed as a whole.
func ownGroup(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return signal(command, syscall.SIGKILL) }
}

// signal sends a signal to the command's process group.
func signal(command *exec.Cmd, which syscall.Signal) error {
	if err := syscall.Kill(-command.Process.Pid, which); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", command.Process.Pid, err)
	}
	return nil
}

// close ends the bash and waits for it.
func (s *session) close() {
	_ = s.input.Close()                    // it may have ended
	_ = signal(s.command, syscall.SIGKILL) // as above
	_ = s.command.Wait()                   // it was killed
	_ = s.answers.Close()
}

// save writes a script to a file, next to that of its output.
func (s *session) save(script string) (path string, err error) {
	s.scripts++
	path = filepath.Join(s.scratch, fmt.Sprintf("%03d.sh", s.scripts))
	return path, os.WriteFile(path, []byte(script), 0o600)
}

// run runs a script in the session. The first failing command ends the script and the session. It returns the output.
func (s *session) run(script string) (output string, err error) {
	path, err := s.save(script)
	if err != nil {
		return "", fmt.Errorf("save a script: %w", err)
	}
	_, err = s.execute("set -e; . %[1]s </dev/null >%[1]s.out 2>&1; set +e; echo 0 >&3\n", path)
	return s.result(path, err)
}

// try runs a script in a copy of the session, whose changes are discarded.
func (s *session) try(script string) (output string, err error) {
	path, err := s.save(script)
	if err != nil {
		return "", fmt.Errorf("save a script: %w", err)
	}
	status, err := s.execute("( set -e; . %[1]s ) </dev/null >%[1]s.out 2>&1; echo $? >&3\n", path)
	if err == nil && status != 0 {
		err = fmt.Errorf("it ended with %d", status)
	}
	return s.result(path, err)
}

// execute sends a line to the session, and returns the number in its response.
func (s *session) execute(format, path string) (int, error) {
	if _, err := fmt.Fprintf(s.input, format, path); err != nil {
		return 0, fmt.Errorf("write to bash: %w", err)
	}
	if !s.status.Scan() {
		return 0, errors.New("it failed")
	}
	return strconv.Atoi(s.status.Text())
}

func (s *session) result(path string, err error) (string, error) {
	output, readErr := os.ReadFile(path + ".out")
	return string(output), errors.Join(err, readErr)
}

// surroundings returns the working directory and the exported variables of the session.
func (s *session) surroundings() (dir string, env []string, err error) {
	path := filepath.Join(s.scratch, "surroundings")
	if _, err := s.execute("{ printf '%%s\\0' \"$PWD\"; env -0; } >%[1]s; echo 0 >&3\n", path); err != nil {
		return "", nil, err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", nil, fmt.Errorf("read the session's variables: %w", err)
	}
	dir, rest, _ := strings.Cut(string(text), "\x00")
	return dir, strings.Split(strings.TrimSuffix(rest, "\x00"), "\x00"), nil
}

// background is a background command.
type background struct {
	command *exec.Cmd
	log     string
	// seen is the length of the output that was compared.
	seen  int
	ended chan struct{}
}

// start runs a script in the background, in the current surroundings of the session.
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
	_ = log.Close() // owned by the command
	if err != nil {
		return nil, fmt.Errorf("start bash: %w", err)
	}
	b := &background{command: command, log: path + ".out", ended: make(chan struct{})}
	go func() {
		defer close(b.ended)
		_ = command.Wait() // the output shows how it ends
	}()
	return b, nil
}

// fresh returns the output that has not been compared.
func (b *background) fresh() (string, error) {
	text, err := os.ReadFile(b.log)
	if err != nil {
		return "", fmt.Errorf("read the output: %w", err)
	}
	return string(text[min(b.seen, len(text)):]), nil
}

// interrupt interrupts the command like Ctrl-C, and waits for its end.
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

// kill kills the whole process group.
func (b *background) kill() {
	_ = signal(b.command, syscall.SIGKILL) // the remaining processes
	<-b.ended
}

// over reports whether the command has ended.
func (b *background) over() bool {
	select {
	case <-b.ended:
		return true
	default:
		return false
	}
}
