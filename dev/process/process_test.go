package process

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The test binary plays the roles of the started programs.
const (
	envRole = "PROCESS_TEST_ROLE"
	envCall = "PROCESS_TEST_CALL" // address to connect to; the connection ends with the role
)

func TestMain(m *testing.M) {
	Keep()
	if role := os.Getenv(envRole); role != "" {
		os.Exit(play(role))
	}
	goleak.VerifyTestMain(m)
}

// play runs a role; the first word is the role, the others are its parameters.
func play(role string) int {
	word, rest, _ := strings.Cut(role, " ")
	if word != "print" {
		signal.Ignore(syscall.SIGHUP)
	}
	switch word {
	case "print": // and end with a status
		_, _ = io.WriteString(os.Stdout, "out 1\nout 2\npartial")
		_, _ = io.WriteString(os.Stderr, "err 1\n")
		status, _ := strconv.Atoi(rest)
		return status
	case "serve":
		asked := make(chan os.Signal, 2)
		signal.Notify(asked, syscall.SIGTERM)
		sendPort(rest)
		_, _ = fmt.Fprintln(os.Stdout, "told")
		<-asked
		_, _ = fmt.Fprintln(os.Stdout, "asked to end")
		return 0
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		sendPort(`4711\n`)
		select {}
	case "guarded": // belongs to a group that the Supervisor did not start
		call(role)
		select {}
	case "tree": // runs with a child and a grandchild
		generations, _ := strconv.Atoi(rest)
		call(role)
		if generations > 1 {
			startChild(fmt.Sprintf("tree %d", generations-1))
		}
		select {}
	case "leave": // ends at once and leaves a child
		startChild("tree 1")
		return 0
	case "supervise": // starts a tree and waits to be killed
		supervise()
		select {}
	}
	return 2
}

func supervise() {
	supervisor, err := New()
	if err == nil {
		_, err = supervisor.Start(roleCommand("tree 3", os.Getenv(envCall)), func(string, string) {})
	}
	if err == nil {
		foreign := roleCommand("guarded", os.Getenv(envCall))
		cmd := &exec.Cmd{Path: foreign.Path, Env: foreign.Env, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
		if err = cmd.Start(); err == nil {
			supervisor.Guard(cmd.Process.Pid)
		}
	}
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	call("keeper is " + strconv.Itoa(supervisor.keeper.command.Process.Pid))
}

// startChild starts a child without waiting for it.
func startChild(role string) {
	own, _ := os.Executable()
	child := exec.Command(own)
	child.Env = roleCommand(role, os.Getenv(envCall)).Env
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	if err := child.Start(); err != nil {
		os.Exit(3)
	}
}

func roleCommand(role, call string) Command {
	own, _ := os.Executable()
	return Command{Path: own, Env: []string{envRole + "=" + role, envCall + "=" + call}, Dir: "/"}
}

func sendPort(port string) {
	descriptor, _ := strconv.Atoi(os.Getenv(envReady))
	pipe := os.NewFile(uintptr(descriptor), "ready")
	_, _ = io.WriteString(pipe, strings.ReplaceAll(port, `\n`, "\n"))
	_ = pipe.Close()
}

// call signals that this process is alive, by a connection that stays open until it ends.
func call(name string) {
	conn, err := net.Dial("tcp", os.Getenv(envCall))
	if err == nil {
		_, err = fmt.Fprintf(conn, "%s\n%d\n", name, os.Getpid())
	}
	if err != nil {
		os.Exit(4)
	}
	go func() { _, _ = io.Copy(io.Discard, conn) }() // keeps the connection from the garbage collector
}

// testTimeout is the timeout of awaited events; only a failing test reaches it.
const testTimeout = time.Minute

func newSupervisor(t *testing.T) *Supervisor {
	t.Helper()
	supervisor, err := New()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, supervisor.Close()) })
	return supervisor
}

// printed collects lines.
type printed struct {
	mu    sync.Mutex
	lines []string
}

func (p *printed) add(stream, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lines = append(p.lines, stream+": "+text)
}

func (p *printed) sorted() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(slices.Values(p.lines))
}

func discard(string, string) {}

func requireClosed(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(testTimeout):
		require.Fail(t, what+" did not happen")
	}
}

func TestEndedProgramHasPassedOnAllItsLines(t *testing.T) {
	t.Parallel()
	supervisor := newSupervisor(t)
	for name, tc := range map[string]struct{ status, want string }{
		"well":  {status: "0"},
		"badly": {status: "3", want: "exit status 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lines printed
			p, err := supervisor.Start(roleCommand("print "+tc.status, ""), lines.add)
			require.NoError(t, err)
			requireClosed(t, p.Done(), "the end")
			require.Equal(t, []string{"stderr: err 1", "stdout: out 1", "stdout: out 2", "stdout: partial"}, lines.sorted())
			require.Empty(t, p.Address())
			if tc.want == "" {
				require.NoError(t, p.Err())
			} else {
				require.EqualError(t, p.Err(), tc.want)
			}
		})
	}
}

func TestProgramIsReadyWhenItHasSentItsPort(t *testing.T) {
	t.Parallel()
	supervisor := newSupervisor(t)
	var lines printed
	p, err := supervisor.Start(roleCommand(`serve 4711\n`, ""), lines.add)
	require.NoError(t, err)
	requireClosed(t, p.Ready(), "readiness")
	require.Equal(t, "127.0.0.1:4711", p.Address())
	require.NoError(t, p.Err())
	p.Stop(testTimeout)
	requireClosed(t, p.Done(), "the end")
	require.NoError(t, p.Err())
	require.Equal(t, []string{"stdout: asked to end", "stdout: told"}, lines.sorted())
}

func TestProgramWithoutAValidPortIsNotReady(t *testing.T) {
	t.Parallel()
	supervisor := newSupervisor(t)
	for name, port := range map[string]string{
		"nothing": "", "no number": `http\n`, "no port": `70000\n`, "port 0": `0\n`, "half a line": "47", "a lot": strings.Repeat("4", 100),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			portSent := make(chan struct{})
			p, err := supervisor.Start(roleCommand("serve "+port, ""), func(_, text string) {
				if text == "told" {
					close(portSent)
				}
			})
			require.NoError(t, err)
			requireClosed(t, portSent, "the end of the port")
			p.Stop(testTimeout)
			requireClosed(t, p.Done(), "the end")
			select {
			case <-p.Ready():
				require.Fail(t, "it was ready at "+p.Address())
			default:
			}
		})
	}
}

func TestProgramThatIgnoresSIGTERMIsKilled(t *testing.T) {
	t.Parallel()
	supervisor := newSupervisor(t)
	p, err := supervisor.Start(roleCommand("deaf", ""), discard)
	require.NoError(t, err)
	requireClosed(t, p.Ready(), "readiness")
	p.Stop(time.Millisecond)
	require.EqualError(t, p.Err(), "signal: killed")
}

func TestChildrenOfAProgramThatEndedAreKilled(t *testing.T) {
	t.Parallel()
	supervisor, life := newSupervisor(t), listen(t)
	p, err := supervisor.Start(roleCommand("leave", life.address), discard)
	require.NoError(t, err)
	requireClosed(t, p.Done(), "the end, which the child's output would hold up")
	require.NoError(t, p.Err())
}

func TestCloseEndsAWholeTree(t *testing.T) {
	t.Parallel()
	supervisor, life := newSupervisor(t), listen(t)
	p, err := supervisor.Start(roleCommand("tree 3", life.address), discard)
	require.NoError(t, err)
	tree := []*caller{life.next(t), life.next(t), life.next(t)}
	require.NoError(t, supervisor.Close())
	requireClosed(t, p.Done(), "the end")
	for _, member := range tree {
		member.requireGone(t)
	}
	_, err = supervisor.Start(roleCommand("print 0", ""), discard)
	require.ErrorIs(t, err, ErrClosed)
	require.NoError(t, supervisor.Close())
}

func TestFailedStartHasAReason(t *testing.T) {
	t.Parallel()
	supervisor := newSupervisor(t)
	empty := t.TempDir() + "/empty"
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for name, tc := range map[string]struct {
		command Command
		want    string
	}{
		"a missing program":             {command: Command{Path: "/nowhere/node"}, want: "start /nowhere/node: fork/exec /nowhere/node: no such file or directory"},
		"a missing folder":              {command: Command{Path: os.Args[0], Dir: "/nowhere"}, want: "no such file or directory"},
		"a file that is not executable": {command: Command{Path: empty}, want: "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := supervisor.Start(tc.command, discard)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestTreeIsKilledWithItsParent(t *testing.T) {
	t.Parallel()
	life := listen(t)
	parent := startParent(t, life)
	callers := life.family(t)
	require.NoError(t, parent.Process.Kill())
	for _, name := range []string{"supervisor", "tree 3", "tree 2", "tree 1", "guarded"} {
		callers[name].requireGone(t)
	}
}

// startParent starts a process with a Supervisor and a tree.
func startParent(t *testing.T, life *life) *exec.Cmd {
	t.Helper()
	command := roleCommand("supervise", life.address)
	parent := exec.Command(command.Path)
	parent.Env, parent.Stderr = command.Env, os.Stderr
	require.NoError(t, parent.Start())
	t.Cleanup(func() { _ = parent.Process.Kill(); _ = parent.Wait() })
	return parent
}

// life accepts connections of live processes.
type life struct {
	address string
	calls   chan *caller
}

// caller is a process that is alive as long as its connection.
type caller struct {
	name string
	pid  int
	gone chan struct{}
}

func (c *caller) requireGone(t *testing.T) {
	t.Helper()
	requireClosed(t, c.gone, "the end of "+c.name)
}

// family is a supervisor with its tree and the guarded process.
func (l *life) family(t *testing.T) map[string]*caller {
	t.Helper()
	callers := map[string]*caller{}
	for range 5 {
		c := l.next(t)
		if strings.HasPrefix(c.name, "keeper") {
			callers["supervisor"] = c
		} else {
			callers[c.name] = c
		}
	}
	require.Len(t, callers, 5)
	return callers
}

func (l *life) next(t *testing.T) *caller {
	t.Helper()
	select {
	case c := <-l.calls:
		return c
	case <-time.After(testTimeout):
		require.Fail(t, "a process did not call")
		return nil
	}
}

func listen(t *testing.T) *life {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := &life{address: listener.Addr().String(), calls: make(chan *caller, 10)}
	ending, end := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(ending, func() { _ = conn.Close() })
			all.Go(func() { l.accept(conn); stop() })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); end(); all.Wait() })
	return l
}

func (l *life) accept(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReader(conn)
	name, err := reader.ReadString('\n')
	if err != nil {
		return
	}
	pid, err := reader.ReadString('\n')
	if err != nil {
		return
	}
	c := &caller{name: strings.TrimSpace(name), gone: make(chan struct{})}
	c.pid, _ = strconv.Atoi(strings.TrimSpace(pid))
	l.calls <- c
	_, _ = io.Copy(io.Discard, reader) // ends with the process, by whatever error
	close(c.gone)
}

func TestOutputIsSplitIntoLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxLine)
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"no lines of an empty output":    {text: ""},
		"complete lines":                 {text: "a\nb\n", want: []string{"a", "b"}},
		"empty lines":                    {text: "\n\na\n", want: []string{"", "", "a"}},
		"a last line without an end":     {text: "a\nb", want: []string{"a", "b"}},
		"with the ends of other systems": {text: "a\r\nb\r\n", want: []string{"a", "b"}},
		"a long line in pieces":          {text: long + "yz\nb\n", want: []string{long, "yz", "b"}},
		"invalid UTF-8, replaced":        {text: "a\xffb\n", want: []string{"a\uFFFDb"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reader := newLineReader(strings.NewReader(tc.text))
			var got []string
			for {
				line, err := reader.next()
				if err != nil {
					require.ErrorIs(t, err, io.EOF)
					break
				}
				got = append(got, line)
			}
			require.Equal(t, tc.want, got)
		})
	}
}

func TestKeeperKillsGroupsThatHaveNotEnded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		orders string
		want   []int
	}{
		"no group without a start":             {orders: ""},
		"groups that have not ended":           {orders: "+7\n+8\n+9\n-8\n", want: []int{7, 9}},
		"a group that was started again":       {orders: "+7\n-7\n+7\n", want: []int{7}},
		"no group for an end without a start":  {orders: "-7\n"},
		"never all processes":                  {orders: "+1\n+0\n-0\n-1\n"},
		"no group for malformed orders":        {orders: "\n+\nx\n+x\n"},
		"also when the last order was cut off": {orders: "+7\n+8", want: []int{7, 8}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var killed []int
			keep(strings.NewReader(tc.orders), func(group int) { killed = append(killed, group) })
			slices.Sort(killed)
			require.Equal(t, tc.want, killed)
		})
	}
}
