package kind

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/component"
	"github.com/rouse-run/rouse/e2e/cluster/kubectl"
	"github.com/rouse-run/rouse/e2e/cluster/progress"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Options are what a user may set.
type Options struct {
	Repository string
	Cache      state.Cache
	Dir        state.Dir
	Bare       bool // Kubernetes, KEDA and the registry only
	KeepFailed bool // leave a failed cluster for a look
	Runtimes   []string
	Nodes      int // several: the first takes no pods
}

// Cluster is the one that kind runs.
type Cluster struct {
	options  Options
	progress *progress.Progress
	helm     func(context.Context) (string, error) // builds it
}

// New prepares a cluster without touching anything.
func New(options Options, report *progress.Progress) *Cluster {
	builder := component.Builder{Repository: options.Repository, Cache: options.Cache, Logs: options.Cache.Path("logs")}
	return &Cluster{options: options, progress: report, helm: func(ctx context.Context) (string, error) {
		built, err := builder.Build(ctx, component.Helm())
		return built.Path("helm"), err
	}}
}

// Environment is the process's own, but for the state directory: without root that is in the cache.
func Environment(getenv func(string) string) (func(string) string, error) {
	cache, err := state.CacheFromEnv(getenv)
	return func(name string) string {
		if value := getenv(name); value != "" || name != "ROUSE_STATE" {
			return value
		}
		return cache.Path("kind")
	}, err
}

// ErrNotRunning means that kind has no such cluster.
var ErrNotRunning = errors.New("the cluster does not run with kind")

func (c *Cluster) running(ctx context.Context) (bool, error) {
	listed, err := command.Command{Name: "kind", Args: []string{"get", "clusters"}}.Run(ctx)
	return slices.Contains(strings.Fields(listed), Name), err
}

// Status prints what runs.
func (c *Cluster) Status(ctx context.Context, out io.Writer) error {
	if err := c.requireRunning(ctx); err != nil {
		return err
	}
	client := c.kubectl()
	client.Log = ""
	pods, err := client.Run(ctx, "get", "pods", "--all-namespaces", "--request-timeout=5s")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\nexport KUBECONFIG=%s\n", pods, c.options.Dir.Kubeconfig())
	return err
}

// Env prints shell commands that select the cluster, and put the Helm that was built for it into the search path.
func (c *Cluster) Env(ctx context.Context, out io.Writer) error {
	if err := c.requireRunning(ctx); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "export KUBECONFIG='%s'\nexport PATH='%s':\"$PATH\"\n", c.options.Dir.Kubeconfig(), c.options.Dir.Path("tools"))
	return err
}

func (c *Cluster) requireRunning(ctx context.Context) error {
	if _, err := exec.LookPath("kind"); err != nil {
		return fmt.Errorf("%w: %w", ErrNotRunning, err)
	}
	running, err := c.running(ctx)
	if err == nil && !running {
		return fmt.Errorf("%w; bring it up first", ErrNotRunning)
	}
	return err
}

// Packages installs nothing: what the tests need beside the cluster is the user's to install on a machine that need not be a Debian.
func (c *Cluster) Packages(context.Context) error {
	c.progress.Printf("With kind no packages are installed. The tests need a C compiler, and Python's venv and pip.\n")
	return nil
}

// Down deletes the cluster and what is kept of it. Images that docker built stay with docker.
func (c *Cluster) Down(ctx context.Context) error {
	unlock, err := c.lock()
	if err != nil {
		return err
	}
	defer unlock()
	return c.takeDown(ctx)
}

func (c *Cluster) takeDown(ctx context.Context) error {
	return c.progress.Step(ctx, "delete the cluster", func(ctx context.Context, detail progress.Detail) error {
		detail("%s, %s", Name, c.options.Dir)
		// Its log would be in the directory that goes.
		if _, err := (command.Command{Name: "kind", Args: deleteArgs(c.options.Dir)}).Run(ctx); err != nil {
			return err
		}
		return os.RemoveAll(string(c.options.Dir))
	})
}

// Leftovers lists what is there of the cluster.
func (c *Cluster) Leftovers(ctx context.Context) []string {
	var found []string
	list := command.Command{Name: "docker", Args: []string{
		"ps", "--all", "--filter", "label=io.x-k8s.kind.cluster=" + Name, "--format", "{{.Names}}",
	}}
	if names, err := list.Run(ctx); err == nil {
		for name := range strings.FieldsSeq(names) {
			found = append(found, "container "+name)
		}
	}
	if c.options.Dir.Exists() {
		found = append(found, "directory "+string(c.options.Dir))
	}
	return found
}

func (c *Cluster) lock() (unlock func(), err error) {
	file := c.options.Cache.Path("kind.lock")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return nil, err
	}
	return state.Lock(file)
}

// run runs a program with its output in a log.
func (c *Cluster) run(ctx context.Context, name string, args ...string) (string, error) {
	return c.command(name, args...).Run(ctx)
}

func (c *Cluster) command(name string, args ...string) command.Command {
	return command.Command{Name: name, Args: args, Log: c.options.Dir.Log(name), Env: []string{
		// An image with an attestation has parts that docker does not save, and containerd asks for them.
		"DOCKER_BUILDKIT=1", "BUILDX_NO_DEFAULT_ATTESTATIONS=1",
	}}
}

func (c *Cluster) kubectl() kubectl.Client {
	return kubectl.Client{Binary: "kubectl", Kubeconfig: c.options.Dir.Kubeconfig(), Log: c.options.Dir.Log("kubectl")}
}
