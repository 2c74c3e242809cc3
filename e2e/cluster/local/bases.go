package local

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/rouse-run/rouse/e2e/cluster/host"
	"github.com/rouse-run/rouse/e2e/cluster/progress"
	"github.com/rouse-run/rouse/e2e/cluster/release"
	"github.com/rouse-run/rouse/e2e/cluster/state"
)

// Bases writes what runtimes' images stand on into the folder of the options, for a release.
func (c *Cluster) Bases(ctx context.Context) error {
	if c.options.Out == "" {
		return errors.New("--out is empty: name the folder that the bases are written to")
	}
	if _, err := os.Stat(c.options.Out); err == nil {
		return fmt.Errorf("--out %s is there already: remove it, or name another folder", c.options.Out)
	}
	chosen, err := release.Choose(c.options.Runtimes)
	if err != nil {
		return err
	}
	unlock, err := state.Lock(state.LockFile)
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.MkdirAll(c.builder.Logs, 0o755); err != nil {
		return err
	}
	err = c.progress.Step(ctx, "packages", func(ctx context.Context, detail progress.Detail) error {
		return c.install(ctx, detail, host.Packages())
	})
	if err != nil {
		return err
	}
	return c.progress.Step(ctx, "bases of runtimes", func(ctx context.Context, detail progress.Detail) error {
		detail("%d, for two architectures", len(chosen))
		if err := c.source().Bases(ctx, chosen, c.options.Out); err != nil {
			return errors.Join(err, os.RemoveAll(c.options.Out))
		}
		return nil
	})
}
