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
	"strconv"
	"strings"
	"syscall"
)

// session is a bash that runs one script after the other.
type session struct {
	command *exec.Cmd
	input   io.WriteCloser
	answers *os.File
	status  *bufio.Scanner
	scratch string
	scripts int
}

// openSession starts a bash. It, and what it runs in the foreground, is killed when ctx ends.
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
	_ = writer.Close() // it is bash's
	if err != nil {
		_ = reader.Close() // it has no writer
		return nil, fmt.Errorf("start bash: %w", err)
	}
	return &session{command: command, input: input, answers: reader, status: bufio.NewScanner(reader), scratch: scratch}, nil
}

// ownGroup gives the command a group of processes, which is killed as one.
func ownGroup(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return signal(command, syscall.SIGKILL) }
}

// signal sends a signal to all of the command's group.
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

// save writes a script into a file, beside which its output will be.
func (s *session) save(script string) (path string, err error) {
	s.scripts++
	path = filepath.Join(s.scratch, fmt.Sprintf("%03d.sh", s.scripts))
	return path, os.WriteFile(path, []byte(script), 0o600)
}

// run runs a script in the session, where the first command that fails ends it, and the session. It gives what was printed.
func (s *session) run(script string) (output string, err error) {
	path, err := s.save(script)
	if err != nil {
		return "", fmt.Errorf("save a script: %w", err)
	}
	_, err = s.execute("set -e; . %[1]s </dev/null >%[1]s.out 2>&1; set +e; echo 0 >&3\n", path)
	return s.result(path, err)
}

// try runs a script in a copy of the session, which forgets what it changes.
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

// execute sends the session a line, and returns the number that it answers with.
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

// surroundings are the working directory and the exported variables of the session.
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
