package local

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/cluster/addon"
	"github.com/rouse-run/rouse/e2e/cluster/component"
	"github.com/rouse-run/rouse/e2e/cluster/network"
	"github.com/rouse-run/rouse/e2e/cluster/node"
	"github.com/rouse-run/rouse/e2e/cluster/process"
	"github.com/rouse-run/rouse/e2e/cluster/progress"
)

// joinFurther has all nodes but the first take pods. By then the cluster's own pods, as DNS and KEDA, are on the first.
func (c *Cluster) joinFurther(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, one := range c.nodes[1:] {
		group.Go(func() error {
			if err := c.startKubelet(ctx, one); err != nil {
				return err
			}
			return c.startPolicies(ctx, one)
		})
	}
	return group.Wait()
}

// startPolicies has NetworkPolicies enforced on a node, where there are several.
func (c *Cluster) startPolicies(ctx context.Context, on machine) error {
	if on.Alone {
		return nil
	}
	return c.progress.Step(ctx, on.label("NetworkPolicies"), func(ctx context.Context, detail progress.Detail) error {
		detail("enforced on %s", on.Name)
		if err := c.kubectl().Apply(ctx, addon.PoliciesRights()); err != nil {
			return err
		}
		program := node.Policies(on.Node, c.built[component.NetworkPolicies().Name].Path("network-policies"))
		return c.startUntil(ctx, on, program, 2*time.Minute, func(ctx context.Context) error { return healthy(ctx, on.PoliciesHealth()) })
	})
}

func healthy(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", url, response.Status)
	}
	return nil
}

// running are the nodes of the cluster that runs, whatever this command was told of their number.
func (c *Cluster) running() []machine {
	further, _ := filepath.Glob(c.options.Dir.Path("nodes", "*")) // the pattern is valid
	return machines(c.options.Dir, 1+len(further))
}

// ErrNoNode means that no further node has that name. The first cannot be cut off: the API server and all links are on it.
var ErrNoNode = errors.New("there is no such node besides the first")

// Cut pulls the cable of a node, and Mend puts it in again.
func (c *Cluster) Cut(ctx context.Context, name string) error {
	return c.cable(ctx, name, func(_ network.Member, pid int) error { return network.Cut(ctx, pid) })
}

// Mend undoes Cut.
func (c *Cluster) Mend(ctx context.Context, name string) error {
	return c.cable(ctx, name, func(member network.Member, pid int) error { return network.Mend(ctx, member, pid) })
}

func (c *Cluster) cable(_ context.Context, name string, change func(network.Member, int) error) error {
	if os.Geteuid() != 0 {
		return errors.New("only root may change a node's network")
	}
	further := c.running()[1:]
	at := slices.IndexFunc(further, func(one machine) bool { return one.Name == name })
	if at < 0 {
		return fmt.Errorf("%w: %q", ErrNoNode, name)
	}
	pid := process.InnerPID(c.options.Dir, further[at].Dir)
	if pid == 0 {
		return fmt.Errorf("%w: %s", ErrNotRunning, name)
	}
	return change(further[at].Member, pid)
}
