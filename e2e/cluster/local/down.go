package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// ErrLeftovers means that parts of the cluster remain on the host.
var ErrLeftovers = errors.New("left behind")

// Down removes the cluster in any state, and checks that nothing of it is left.
func (c *Cluster) Down(ctx context.Context) error {
	release, err := state.Lock(state.LockFile)
	if err != nil {
		return err
	}
	defer release()
	return c.takeDown(ctx)
}

// ErrOther means that a cluster of another state directory runs, whose network and cgroups would conflict.
var ErrOther = errors.New("another cluster runs on this machine")

func (c *Cluster) checkAlone() error {
	others := host.OtherClusters(c.options.Dir)
	if len(others) == 0 {
		return nil
	}
	return fmt.Errorf("%w: take it down first, with ROUSE_STATE=%s", ErrOther, others[0])
}

// takeDown continues after a failure, to remove as much as possible.
func (c *Cluster) takeDown(ctx context.Context) error {
	if err := c.checkAlone(); err != nil {
		return err
	}
	var problems []error
	step := func(name string, run func(context.Context, command.Detail) error) {
		problems = append(problems, c.progress.Step(ctx, name, run))
	}
	// The logs are deleted with the state directory, so commands keep their output for the error.
	step("stop all processes", func(ctx context.Context, _ command.Detail) error {
		return host.KillProcesses(ctx, c.options.Dir)
	})
	step("leave the network", func(ctx context.Context, _ command.Detail) error {
		return host.LeaveNetwork(ctx, "")
	})
	step("remove cgroups", func(ctx context.Context, _ command.Detail) error {
		return host.RemoveCgroups(ctx)
	})
	step("restore settings", func(context.Context, command.Detail) error {
		var saved host.Sysctls
		if err := c.options.Dir.Load(sysctlsName, &saved); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return saved.Restore()
	})
	step("remove files", func(_ context.Context, detail command.Detail) error {
		detail("%s", c.options.Dir)
		return c.options.Dir.Remove()
	})
	step("look for leftovers", func(ctx context.Context, detail command.Detail) error {
		found := c.Leftovers(ctx)
		detail("%d found", len(found))
		if len(found) > 0 {
			return fmt.Errorf("%w:\n- %s", ErrLeftovers, strings.Join(found, "\n- "))
		}
		return nil
	})
	return errors.Join(problems...)
}

// Leftovers lists all remains of the cluster on the host.
func (c *Cluster) Leftovers(ctx context.Context) []string {
	found := host.StrayProcesses(c.options.Dir)
	found = append(found, host.NetworkLeftovers(ctx)...)
	for _, dir := range host.CgroupRoots() {
		found = append(found, "cgroup "+dir)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		for _, mount := range state.MountsBelow(string(mounts), string(c.options.Dir)) {
			found = append(found, "mount "+mount)
		}
	}
	if c.options.Dir.Exists() {
		found = append(found, "directory "+string(c.options.Dir))
	}
	return found
}
