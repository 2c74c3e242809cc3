package host

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Program is one program to start.
type Program struct {
	Name string   `json:"name"`
	Path string   `json:"path"`
	Args []string `json:"args"`
	Env  []string `json:"env,omitempty"`
	Log  string   `json:"log"`
	// Init is true for the init of a further node, in namespaces of its own within those of the first.
	Init bool `json:"init,omitempty"`
}

// ProgramStatus is the status of a program.
type ProgramStatus struct {
	Name    string    `json:"name"`
	PID     int       `json:"pid"` // in the PID namespace of the cluster
	Running bool      `json:"running"`
	Exit    string    `json:"exit,omitempty"`
	Log     string    `json:"log"`
	Started time.Time `json:"started"`
}

// InitSettings are the settings of the init at its start.
type InitSettings struct {
	State    string   `json:"state"`
	Keep     []string `json:"keep"` // directories that stay visible within hidden ones
	Hostname string   `json:"hostname"`
}

const (
	socketName   = "init.sock"
	settingsName = "init"
	programsPath = "/programs"
)

// ErrDied means that a program ended unexpectedly.
var ErrDied = errors.New("program ended")

// InitClient is a client of a cluster's init.
type InitClient struct {
	dir  state.Dir
	http *http.Client
}

// NewInitClient returns a client. Its calls fail while there is no init.
func NewInitClient(dir state.Dir) *InitClient {
	var dialer net.Dialer
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "unix", dir.Path(socketName))
	}}
	return &InitClient{dir: dir, http: &http.Client{Transport: transport, Timeout: 30 * time.Second}}
}

// StartInit creates the namespaces and waits until their init serves. It returns the init's process ID on the host.
func (c *InitClient) StartInit(ctx context.Context, self string, settings InitSettings) (int, error) {
	if err := c.dir.Save(settingsName, settings); err != nil {
		return 0, err
	}
	log, err := os.OpenFile(c.dir.Log("init"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() { _ = log.Close() }()
	// Not bound to ctx: the init outlives this command, and is ended by Kill.
	cmd := exec.Command(self, InitCommand, string(c.dir)) //nolint:noctx // it must outlive the context
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: namespaces,
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("make the namespaces: %w", err)
	}
	pid := cmd.Process.Pid
	if err := cmd.Process.Release(); err != nil {
		return 0, err
	}
	return pid, c.awaitInit(ctx)
}

// StartInner creates the namespaces of a further node within those of first's init, with which they end. It returns the
// process ID of their init on the host.
func (c *InitClient) StartInner(ctx context.Context, first *InitClient, settings InitSettings) (int, error) {
	if err := c.dir.Save(settingsName, settings); err != nil {
		return 0, err
	}
	err := first.Start(ctx, Program{
		Name: settings.Hostname, Path: CommandCopy(first.dir), Args: []string{InitCommand, string(c.dir)}, Log: c.dir.Log("init"), Init: true,
	})
	if err != nil {
		return 0, err
	}
	if err := c.awaitInit(ctx); err != nil {
		return 0, err
	}
	pid := InnerPID(first.dir, c.dir)
	if pid == 0 {
		return 0, fmt.Errorf("the init of %s has ended", settings.Hostname)
	}
	return pid, nil
}

func (c *InitClient) awaitInit(ctx context.Context) error {
	err := command.Await(ctx, time.Minute, 10*time.Millisecond, "the init answers", func(ctx context.Context) error {
		_, err := c.List(ctx)
		return err
	})
	if err != nil {
		return &command.Error{Command: "init", Log: c.dir.Log("init"), Tail: command.Tail(c.dir.Log("init")), Err: err}
	}
	return nil
}

// Start starts programs that are not running.
func (c *InitClient) Start(ctx context.Context, programs ...Program) error {
	for _, program := range programs {
		body, err := json.Marshal(program)
		if err != nil {
			return err
		}
		if err := c.do(ctx, http.MethodPost, "", bytes.NewReader(body), nil); err != nil {
			return fmt.Errorf("start %s: %w", program.Name, err)
		}
	}
	return nil
}

// Stop terminates a program and waits for its end.
func (c *InitClient) Stop(ctx context.Context, name string) error {
	if err := c.do(ctx, http.MethodDelete, "/"+name, http.NoBody, nil); err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	return command.Await(ctx, time.Minute, 20*time.Millisecond, name+" has ended", func(ctx context.Context) error {
		all, err := c.List(ctx)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(status ProgramStatus) bool { return status.Name == name && status.Running }) {
			return errors.New("it still runs")
		}
		return nil
	})
}

// List returns the state of the programs, ordered by their start.
func (c *InitClient) List(ctx context.Context) ([]ProgramStatus, error) {
	var all []ProgramStatus
	err := c.do(ctx, http.MethodGet, "", http.NoBody, &all)
	slices.SortFunc(all, func(a, b ProgramStatus) int {
		return cmp.Or(a.Started.Compare(b.Started), strings.Compare(a.Name, b.Name))
	})
	return all, err
}

// CheckAlive returns an error for the first program that has ended, with the end of its log.
func (c *InitClient) CheckAlive(ctx context.Context) error {
	all, err := c.List(ctx)
	if err != nil {
		return err
	}
	for _, status := range all {
		if !status.Running {
			return &command.Error{
				Command: status.Name, Log: status.Log, Tail: command.Tail(status.Log),
				Err: fmt.Errorf("%w: %s", ErrDied, status.Exit),
			}
		}
	}
	return nil
}

func (c *InitClient) do(ctx context.Context, method, path string, body io.Reader, answer any) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://init"+programsPath+path, body)
	if err != nil {
		return err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return errors.New(strings.TrimSpace(string(text)))
	}
	if answer == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// CommandCopy returns the path of the orchestrator's copy that runs as the init: it outlives the temporary file of `go
// run`.
func CommandCopy(dir state.Dir) string { return dir.Path("bin", "rouse-cluster") }

// InitPID returns the init's process ID on the host, or 0 when it does not run. It searches the processes rather than a
// file, which a killed orchestrator may not have written.
func InitPID(dir state.Dir) int { return InnerPID(dir, dir) }

// InnerPID returns the process ID of a further node's init, whose files are in inner.
func InnerPID(dir, inner state.Dir) int {
	for pid, args := range processes() {
		if len(args) == 3 && args[0] == CommandCopy(dir) && args[1] == InitCommand && args[2] == string(inner) {
			return pid
		}
	}
	return 0
}

// OtherClusters returns the state directories of other clusters on this machine. A network device and a cgroup with
// fixed names allow only one cluster.
func OtherClusters(dir state.Dir) []string {
	var others []string
	for _, args := range processes() {
		if len(args) == 3 && args[0] == CommandCopy(state.Dir(args[2])) && args[1] == InitCommand && args[2] != string(dir) {
			others = append(others, args[2])
		}
	}
	return others
}

// StrayProcesses lists processes of the cluster on the host: those that were started from the state directory or with
// it among their arguments.
func StrayProcesses(dir state.Dir) []string {
	var found []string
	for pid, args := range processes() {
		if pid == os.Getpid() || pid == os.Getppid() {
			continue
		}
		for _, arg := range args {
			if strings.Contains(arg, string(dir)+"/") {
				found = append(found, fmt.Sprintf("process %d: %.120s", pid, strings.Join(args, " ")))
				break
			}
		}
	}
	return found
}

// processes returns the arguments of every live process.
func processes() map[int][]string {
	found := map[int][]string{}
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is valid
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil || len(content) == 0 { // ended meanwhile, a zombie, or a kernel thread
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err == nil {
			found[pid] = strings.Split(strings.TrimSuffix(string(content), "\x00"), "\x00")
		}
	}
	return found
}

// KillProcesses kills the init, and with it everything in its namespaces, and waits for its end.
func KillProcesses(ctx context.Context, dir state.Dir) error {
	pid := InitPID(dir)
	if pid == 0 {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill the init %d: %w", pid, err)
	}
	return command.Await(ctx, time.Minute, 20*time.Millisecond, "the end of the init", func(context.Context) error {
		if !ended(pid) {
			return fmt.Errorf("process %d is still there", pid)
		}
		return nil
	})
}

// ended reports whether a process is gone or a zombie. The kernel lets an init become a zombie only after everything in
// its PID namespace has ended; unreadable arguments alone do not prove it.
func ended(pid int) bool {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	// The second field is the name in parentheses, which may contain any character.
	text := string(content)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	return len(fields) > 0 && (fields[0] == "Z" || fields[0] == "X")
}
