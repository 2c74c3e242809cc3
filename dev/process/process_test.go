package process

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testTimeout is how long a test waits for what will happen; only a test that fails waits so long.
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

func TestAProgramThatEndsHasHandedOnAllItsLines(t *testing.T) {
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
		"a program that is not there": {command: Command{Path: "/nowhere/node"}, want: "start /nowhere/node: fork/exec /nowhere/node: no such file or directory"},
		"a folder that is not there":  {command: Command{Path: os.Args[0], Dir: "/nowhere"}, want: "no such file or directory"},
		"a file that is no program":   {command: Command{Path: empty}, want: "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := supervisor.Start(tc.command, discard)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestATreeDiesWithAParentThatIsKilled(t *testing.T) {
	t.Parallel()
	life := listen(t)
	parent := startParent(t, life)
	callers := life.family(t)
	require.NoError(t, parent.Process.Kill())
	for _, name := range []string{"supervisor", "tree 3", "tree 2", "tree 1", "guarded"} {
		callers[name].requireGone(t)
	}
}

// startParent starts a process that has a Supervisor with a tree.
func startParent(t *testing.T, life *life) *exec.Cmd {
	t.Helper()
	command := roleCommand("supervise", life.address)
	parent := exec.Command(command.Path)
	parent.Env, parent.Stderr = command.Env, os.Stderr
	require.NoError(t, parent.Start())
	t.Cleanup(func() { _ = parent.Process.Kill(); _ = parent.Wait() })
	return parent
}

// life accepts connections of processes that live.
type life struct {
	address string
	calls   chan *caller
}

// caller is a process that lives as long as its connection.
type caller struct {
	name string
	pid  int
	gone chan struct{}
}

func (c *caller) requireGone(t *testing.T) {
	t.Helper()
	requireClosed(t, c.gone, "the end of "+c.name)
}

// family are a supervisor, its tree and what it guards.
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
