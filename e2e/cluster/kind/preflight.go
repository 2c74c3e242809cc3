package kind

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/rouse-run/rouse/e2e/cluster/command"
	"github.com/rouse-run/rouse/e2e/cluster/progress"
)

// ErrUnfit means that the machine lacks something.
var ErrUnfit = errors.New("this machine cannot run the cluster with kind (CLUSTER=local, the default, needs neither Docker nor kind)")

// tool is a program of the machine, what shows that it works, and what to do when it is absent or does not.
type tool struct {
	works   []string
	install string // empty: another entry says it
	repair  string
}

func tools() []tool {
	const reinstall, version = "install it anew", "version"
	return []tool{
		{
			works:   []string{"docker", version, "--format", "{{.Server.Version}}"},
			install: "install Docker Engine, https://docs.docker.com/engine/install",
			repair:  "start its daemon, or let this user reach it (group docker, or DOCKER_HOST)",
		},
		{works: []string{"docker", "buildx", version}, repair: "install Docker's plugin buildx"},
		{
			works:   []string{"kind", version},
			install: "go install sigs.k8s.io/kind@latest, and add $(go env GOPATH)/bin to PATH", repair: reinstall,
		},
		{works: []string{"kubectl", version, "--client"}, install: "see https://kubernetes.io/docs/tasks/tools", repair: reinstall},
		{works: []string{"go", version}, install: "see https://go.dev/doc/install", repair: reinstall},
	}
}

// Preflight says what the machine lacks, and changes nothing.
func (c *Cluster) Preflight(ctx context.Context) error {
	return c.progress.Step(ctx, "check the machine", func(ctx context.Context, detail progress.Detail) error {
		detail("Docker, kind, kubectl; state %s", c.options.Dir)
		var lacks []string
		for _, one := range tools() {
			if problem := one.check(ctx); problem != "" {
				lacks = append(lacks, problem)
			}
		}
		if len(lacks) == 0 {
			return nil
		}
		return fmt.Errorf("%w:\n- %s", ErrUnfit, strings.Join(lacks, "\n- "))
	})
}

func (t tool) check(ctx context.Context) string {
	if _, err := exec.LookPath(t.works[0]); err != nil && t.install == "" {
		return ""
	} else if err != nil {
		return fmt.Sprintf("%s is not in PATH: %s", t.works[0], t.install)
	}
	_, err := command.Command{Name: t.works[0], Args: t.works[1:]}.Run(ctx)
	if err == nil {
		return ""
	}
	last := ""
	if failed, ok := errors.AsType[*command.Error](err); ok {
		last = failed.Tail[strings.LastIndex(failed.Tail, "\n")+1:]
	}
	return fmt.Sprintf("%s does not work (%s): %s", strings.Join(t.works, " "), last, t.repair)
}
