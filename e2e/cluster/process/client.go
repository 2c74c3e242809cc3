package process

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
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// ErrDied means that a program ended that should run on.
var ErrDied = errors.New("program ended")

// Client talks to the init of one cluster.
type Client struct {
	dir  state.Dir
	http *http.Client
}

// NewClient works also while there is no init; its calls fail then.
func NewClient(dir state.Dir) *Client {
	var dialer net.Dialer
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "unix", dir.Path(socketName))
	}}
	return &Client{dir: dir, http: &http.Client{Transport: transport, Timeout: 30 * time.Second}}
}

// StartInit makes the namespaces and waits until their init serves. It returns the init's process number on the host.
func (c *Client) StartInit(ctx context.Context, self string, settings Settings) (int, error) {
	if err := c.dir.Save(settingsName, settings); err != nil {
		return 0, err
	}
	log, err := os.OpenFile(c.dir.Log("init"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() { _ = log.Close() }()
	// Not bound to ctx: the init outlives this command, and Kill ends it.
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

// StartInner makes the namespaces of a further node within those of the init that first talks to, with which they end. It returns the
// process number of their init on the host.
func (c *Client) StartInner(ctx context.Context, first *Client, settings Settings) (int, error) {
	if err := c.dir.Save(settingsName, settings); err != nil {
		return 0, err
	}
	err := first.Start(ctx, Program{
		Name: settings.Hostname, Path: Self(first.dir), Args: []string{InitCommand, string(c.dir)}, Log: c.dir.Log("init"), Init: true,
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

func (c *Client) awaitInit(ctx context.Context) error {
	err := command.Await(ctx, time.Minute, 10*time.Millisecond, "the init answers", func(ctx context.Context) error {
		_, err := c.List(ctx)
		return err
	})
	if err != nil {
		return &command.Error{Command: "init", Log: c.dir.Log("init"), Tail: command.Tail(c.dir.Log("init")), Err: err}
	}
	return nil
}

// Start starts programs. One that runs already is left alone.
func (c *Client) Start(ctx context.Context, programs ...Program) error {
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

// Stop asks a program to end and waits until it has.
func (c *Client) Stop(ctx context.Context, name string) error {
	if err := c.do(ctx, http.MethodDelete, "/"+name, http.NoBody, nil); err != nil {
		return fmt.Errorf("stop %s: %w", name, err)
	}
	return command.Await(ctx, time.Minute, 20*time.Millisecond, name+" has ended", func(ctx context.Context) error {
		all, err := c.List(ctx)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(status Status) bool { return status.Name == name && status.Running }) {
			return errors.New("it still runs")
		}
		return nil
	})
}

// List returns the state of the programs, ordered by their start.
func (c *Client) List(ctx context.Context) ([]Status, error) {
	var all []Status
	err := c.do(ctx, http.MethodGet, "", http.NoBody, &all)
	slices.SortFunc(all, func(a, b Status) int {
		return cmp.Or(a.Started.Compare(b.Started), strings.Compare(a.Name, b.Name))
	})
	return all, err
}

// CheckAlive fails with the first program that has ended, and the end of its log.
func (c *Client) CheckAlive(ctx context.Context) error {
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

func (c *Client) do(ctx context.Context, method, path string, body io.Reader, answer any) error {
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
