package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kubectl runs kubectl for one kubeconfig.
type Kubectl struct {
	Binary     string
	Kubeconfig string // empty: KUBECONFIG, which may name several files
	Log        string
}

// Run runs kubectl and returns its output.
func (c Kubectl) Run(ctx context.Context, args ...string) (string, error) {
	return c.command(args...).Run(ctx)
}

// Apply applies manifests, by server-side apply.
func (c Kubectl) Apply(ctx context.Context, manifests string) error {
	apply := c.command("apply", "--server-side", "--force-conflicts", "-f", "-")
	apply.Stdin = strings.NewReader(manifests)
	_, err := apply.Run(ctx)
	return err
}

// ApplyKustomization applies what a kustomization renders.
func (c Kubectl) ApplyKustomization(ctx context.Context, dir string) error {
	_, err := c.Run(ctx, "apply", "--server-side", "--force-conflicts", "-k", dir)
	return err
}

// Ready returns an error until the API server reports that it is ready.
func (c Kubectl) Ready(ctx context.Context) error {
	quiet := c
	quiet.Log = ""
	_, err := quiet.Run(ctx, "get", "--raw", "/readyz", "--request-timeout=2s")
	return err
}

// RolledOut waits until all replicas of a workload are ready. On a timeout its error describes the cause.
func (c Kubectl) RolledOut(ctx context.Context, namespace, workload string, limit time.Duration) error {
	_, err := c.Run(ctx, "--namespace", namespace, "rollout", "status", workload, "--timeout="+limit.String())
	if err == nil || ctx.Err() != nil {
		return err
	}
	return c.Explain(ctx, namespace, fmt.Errorf("%s in namespace %s is not ready: %w", workload, namespace, err))
}

// Explain adds the pods and warnings of a namespace to an error, which show the cause of a timeout.
func (c Kubectl) Explain(ctx context.Context, namespace string, err error) error {
	quiet := c
	quiet.Log = ""
	pods, _ := quiet.Run(ctx, "--namespace", namespace, "get", "pods", "-o", "wide", "--request-timeout=5s")
	events, _ := quiet.Run(ctx, "--namespace", namespace, "get", "events", "--field-selector=type=Warning", "--request-timeout=5s")
	tail := ""
	if failed, ok := errors.AsType[*Error](err); ok {
		tail = failed.Tail + "\n"
	}
	return &Error{Command: "namespace " + namespace, Err: err, Tail: tail + pods + events}
}

func (c Kubectl) command(args ...string) Command {
	if c.Kubeconfig != "" {
		args = append([]string{"--kubeconfig", c.Kubeconfig}, args...)
	}
	return Command{Name: c.Binary, Args: args, Log: c.Log}
}
