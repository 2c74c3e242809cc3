package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rouse-run/rouse/e2e/framework"
)

const (
	name = "rouse"
	wait = "5m"
)

// defaultGrace is what everybody has who sets none. The local cluster's own is shorter than a controller needs to take over from another
// one, for which the release before the first tag does not wait.
const defaultGrace = "gateway.graceSeconds=15"

// release is a chart, a file with the values that name its images, and what is set beside them.
type release struct {
	chart, values string
	set           []string
}

type releases struct {
	older, newer release
}

// installOlder puts the release before in the place of the one that the cluster has, whose images stay there.
func installOlder(ctx context.Context, older checkout) (releases, error) {
	fmt.Printf("the release before is %s, with NATS %s\n", older.commit, natsBefore)
	found := releases{
		newer: release{chart: "charts/rouse", values: filepath.Join(older.dir, "newer.yaml")},
		older: release{
			chart: filepath.Join(older.dir, "charts", "rouse"), values: filepath.Join(older.dir, "older.yaml"), set: []string{"--set", defaultGrace},
		},
	}
	err := errors.Join(
		saveValues(ctx, found.newer.values),
		helm(ctx, "upgrade", name, found.newer.chart, "--reuse-values", "--set", "crds.keep=false,nats.persistence.keep=false", "--wait", "--timeout", wait),
		helm(ctx, "uninstall", name, "--wait", "--timeout", wait),
	)
	if err != nil {
		return releases{}, err
	}
	if _, err := output(ctx, "e2e/cluster", "go", "run", ".", "up", "--checkout", older.dir); err != nil {
		return releases{}, err
	}
	return found, errors.Join(saveValues(ctx, found.older.values), found.older.upgrade(ctx))
}

func saveValues(ctx context.Context, file string) error {
	values, err := output(ctx, ".", "helm", "get", "values", name, "--namespace", framework.System, "--output", "yaml")
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(values), 0o600)
}

// upgrade is what the documentation tells people to do, in both directions.
func (r release) upgrade(ctx context.Context, more ...string) error {
	command := []string{"upgrade", name, r.chart, "--values", r.values, "--wait", "--timeout", wait}
	return helm(ctx, slices.Concat(command, r.set, more)...)
}

func helm(ctx context.Context, args ...string) error {
	_, err := output(ctx, ".", "helm", append(args, "--namespace", framework.System)...)
	return err
}
