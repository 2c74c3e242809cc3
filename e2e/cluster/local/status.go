package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/components"
	"github.com/rouse-run/rouse/e2e/cluster/host"
)

// ErrNotRunning means that there is no local cluster, or that parts of it do not run.
var ErrNotRunning = errors.New("the local cluster does not run")

// Status prints the running parts. It returns an error unless the whole cluster runs.
func (c *Cluster) Status(ctx context.Context, out io.Writer) error {
	if c.options.Kubeconfig != "" {
		return c.CheckOwn(ctx)
	}
	if !c.Running() {
		return fmt.Errorf("%w (%s)", ErrNotRunning, c.describe())
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "PROGRAM\tSTATE\tFOR\tLOG")
	down := 0
	for _, one := range c.running() {
		programs, err := one.process.List(ctx)
		if err != nil {
			return err
		}
		for _, program := range programs {
			condition := "running"
			if !program.Running {
				condition = program.Exit
				down++
			}
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", program.Name, condition, time.Since(program.Started).Round(time.Second), program.Log)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	pods, err := c.status().Run(ctx, "get", "pods", "--all-namespaces", "--request-timeout=5s")
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "\n%s\nexport KUBECONFIG=%s\n", pods, c.options.Dir.Kubeconfig()); err != nil {
		return err
	}
	if down > 0 {
		return fmt.Errorf("%w: %d programs have ended", ErrNotRunning, down)
	}
	return nil
}

// Env prints shell commands that select the cluster, and put its kubectl and helm into the search path.
func (c *Cluster) Env(out io.Writer) error {
	if c.options.Kubeconfig != "" {
		_, err := fmt.Fprintf(out, "export KUBECONFIG='%s'\n", c.options.Kubeconfig)
		return err
	}
	if !c.Running() {
		return fmt.Errorf("%w; bring it up first", ErrNotRunning)
	}
	_, err := fmt.Fprintf(out, "export KUBECONFIG='%s'\nexport PATH='%s':\"$PATH\"\nexport ROUSE_REGISTRY='%s' ROUSE_REGISTRY_CA='%s'\n",
		c.options.Dir.Kubeconfig(), c.options.Dir.Path("tools"), host.RegistryAddress+":5000", c.options.Dir.PKI("ca.crt"))
	return err
}

// linkTools links the programs for users into one directory.
func (c *Cluster) linkTools() error {
	tools := c.options.Dir.Path("tools")
	if err := os.MkdirAll(tools, 0o755); err != nil {
		return err
	}
	for name, of := range map[string]components.Component{"kubectl": components.Kubernetes(), "helm": components.Helm()} {
		built, ok := c.built[of.Name]
		if !ok {
			continue
		}
		link := filepath.Join(tools, name)
		_ = os.Remove(link)
		if err := os.Symlink(built.Path(name), link); err != nil {
			return err
		}
	}
	return nil
}

// CheckOwn checks whether the user's own cluster responds and meets the requirements, without changing it.
func (c *Cluster) CheckOwn(ctx context.Context) error {
	c.progress.Printf("%s", c.options.OwnCluster)
	return c.progress.Step(ctx, "cluster of your own", func(ctx context.Context, detail command.Detail) error {
		binary, err := exec.LookPath("kubectl")
		if err != nil {
			return fmt.Errorf("look at the cluster of KUBECONFIG: %w", err)
		}
		client := command.Kubectl{Binary: binary}
		if err := client.Ready(ctx); err != nil {
			return fmt.Errorf("the cluster of KUBECONFIG=%s does not answer: %w", c.options.Kubeconfig, err)
		}
		detail("%s answers", c.options.Kubeconfig)
		return nil
	})
}
