package main

import (
	"context"
	"fmt"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// language is one runtime with a handler that answers a text, alone and with two dependencies.
type language struct {
	runtime      string
	plain        func(answer string) string
	needy        func(answer string) string
	dependencies func(unique string) string
}

func languages() []language {
	return []language{
		{
			runtime: "nodejs22",
			plain:   func(answer string) string { return fmt.Sprintf("module.exports.main = () => '%s'\n", answer) },
			needy: func(answer string) string {
				return fmt.Sprintf("require('lodash'); require('axios'); module.exports.main = () => '%s'\n", answer)
			},
			dependencies: func(unique string) string {
				return fmt.Sprintf(`{"name":%q,"dependencies":{"lodash":"4.17.21","axios":"1.12.2"}}`, unique)
			},
		},
		{
			runtime: "python312",
			plain:   func(answer string) string { return fmt.Sprintf("def main(event, context):\n    return '%s'\n", answer) },
			needy: func(answer string) string {
				return fmt.Sprintf("import markupsafe, requests\ndef main(event, context):\n    return '%s'\n", answer)
			},
			dependencies: func(unique string) string {
				return fmt.Sprintf("# %s\nrequests==2.32.5\nmarkupsafe==3.0.3\n", unique)
			},
		},
	}
}

type bench struct {
	cluster   *framework.Cluster
	namespace string
	token     string // of this run: its dependencies were never built before
}

// measure runs one round of a language and leaves nothing of it behind.
func (b *bench) measure(ctx context.Context, of language, n int) (measured round, err error) {
	plain := framework.Function{Name: fmt.Sprintf("%s-plain-%d", of.runtime, n), Runtime: of.runtime, Source: of.plain("plain")}
	if measured.inline, err = b.run(ctx, plain, "plain"); err != nil {
		return measured, err
	}
	if measured.podWithout, err = b.secondPod(ctx, plain.Name); err != nil {
		return measured, err
	}
	if err := b.remove(ctx, plain.Name); err != nil {
		return measured, err
	}
	needy := framework.Function{
		Name: fmt.Sprintf("%s-needy-%d", of.runtime, n), Runtime: of.runtime, Source: of.needy("first"),
		Dependencies: of.dependencies(fmt.Sprintf("%s-%d", b.token, n)),
	}
	if measured.first, err = b.run(ctx, needy, "first"); err != nil {
		return measured, err
	}
	if measured.pod, err = b.secondPod(ctx, needy.Name); err != nil {
		return measured, err
	}
	needy.Source = of.needy("second")
	if measured.rebuild, err = b.run(ctx, needy, "second"); err != nil {
		return measured, err
	}
	return measured, b.remove(ctx, needy.Name)
}

// run applies a Function and returns the time until it was Running. Then it must give the answer of this version.
func (b *bench) run(ctx context.Context, function framework.Function, answer string) (time.Duration, error) {
	// The build has its default resources; a limit on the pod's CPU would measure that limit.
	function.Spec = map[string]any{"resourceConfiguration": map[string]any{"function": map[string]any{"resources": map[string]any{
		"requests": map[string]any{"cpu": "50m", "memory": "64Mi"}, "limits": map[string]any{"memory": "256Mi"},
	}}}}
	started := time.Now()
	if err := b.cluster.ApplyYAML(ctx, b.namespace, function.YAML()); err != nil {
		return 0, err
	}
	applied, err := b.cluster.Function(ctx, b.namespace, function.Name)
	if err != nil {
		return 0, err
	}
	running, err := b.cluster.MomentOfRunning(ctx, b.namespace, function.Name, applied.GetGeneration())
	if err != nil {
		return 0, err
	}
	return running.Sub(started), b.cluster.AwaitAnswer(ctx, b.namespace, function.Name, answer, 10*time.Second)
}

// secondPod scales from 1 to 2, returns the time until the second pod was ready, and scales back.
func (b *bench) secondPod(ctx context.Context, name string) (time.Duration, error) {
	started := time.Now()
	if err := b.scale(ctx, name, 2); err != nil {
		return 0, err
	}
	ready, err := b.cluster.MomentOfReadyPods(ctx, b.namespace, name, 2)
	if err != nil {
		return 0, err
	}
	if err := b.scale(ctx, name, 1); err != nil {
		return 0, err
	}
	return ready.Sub(started), b.cluster.AwaitReplicas(ctx, b.namespace, name, 1, time.Minute)
}

func (b *bench) scale(ctx context.Context, name string, replicas int32) error {
	function, err := b.cluster.Function(ctx, b.namespace, name)
	if err != nil {
		return err
	}
	body := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	if err := b.cluster.SubResource("scale").Update(ctx, function, client.WithSubResourceBody(body)); err != nil {
		return fmt.Errorf("scale %s to %d: %w", name, replicas, err)
	}
	return nil
}

// remove deletes a Function and waits until its pods are gone, so that they take nothing from the next measurement.
func (b *bench) remove(ctx context.Context, name string) error {
	function, err := b.cluster.Function(ctx, b.namespace, name)
	if err != nil {
		return err
	}
	if err := b.cluster.Delete(ctx, function); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	return b.cluster.AwaitNoPods(ctx, b.namespace, name, 2*time.Minute)
}
