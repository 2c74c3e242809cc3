package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
)

// benchBuild measures how long a Function takes from its apply until it is Running: without dependencies, with two
// that are built for the first time, and with the same two under a changed source; and how fast a second pod of it is
// ready with and without dependencies.
func benchBuild(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("build", flag.ExitOnError)
	rounds := flags.Int("rounds", 5, "how often each language is measured")
	profile := flags.String("profile", "", "the build profile, such as slow; empty: the installation's default")
	_ = flags.Parse(args)
	return runBuild(ctx, *rounds, *profile)
}

func runBuild(ctx context.Context, rounds int, profile string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	cluster, namespace, end, err := framework.ConnectWithin(ctx, "bench")
	if err != nil {
		return err
	}
	defer end()

	b := &buildBench{cluster: cluster, namespace: namespace, token: namespace, profile: profile}
	results := map[string][]round{}
	fmt.Println(header())
	for n := range rounds {
		for _, language := range builtLanguages() {
			measured, err := b.measure(ctx, language, n)
			if err != nil {
				cluster.Dump(context.WithoutCancel(ctx), os.Stderr, namespace)
				return fmt.Errorf("round %d of %s: %w", n+1, language.runtime, err)
			}
			results[language.runtime] = append(results[language.runtime], measured)
			fmt.Println(line(language.runtime, fmt.Sprintf("%d/%d", n+1, rounds), measured))
		}
	}
	var worst round
	for _, language := range builtLanguages() {
		typical := medianRound(results[language.runtime])
		fmt.Println(line(language.runtime, "median", typical))
		worst = slower(worst, typical)
	}
	fmt.Printf("second pod without dependencies: %.2f s\n", worst.podWithout.Seconds())
	fmt.Printf("build inline_s=%.2f first_build_s=%.2f rebuild_s=%.2f second_pod_start_s=%.2f\n",
		worst.inline.Seconds(), worst.first.Seconds(), worst.rebuild.Seconds(), worst.pod.Seconds())
	return nil
}

// builtLanguage is one runtime with a handler that answers a text, alone and with two dependencies.
type builtLanguage struct {
	runtime      string
	plain        func(answer string) string
	needy        func(answer string) string
	dependencies func(unique string) string
}

func builtLanguages() []builtLanguage {
	return []builtLanguage{
		{
			runtime: nodeRuntime,
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

type buildBench struct {
	cluster   *framework.Cluster
	namespace string
	token     string // of this run: its dependencies were never built before
	profile   string // of builds; empty: the default
}

// measure runs one round of a language and leaves nothing of it behind.
func (b *buildBench) measure(ctx context.Context, of builtLanguage, n int) (measured round, err error) {
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

// runBuild applies a Function and returns the time until it was Running. Then it must give the answer of this version.
func (b *buildBench) run(ctx context.Context, function framework.Function, answer string) (time.Duration, error) {
	// A limit on the pod's CPU would measure that limit.
	resources := map[string]any{"function": map[string]any{"resources": map[string]any{
		"requests": map[string]any{"cpu": "50m", "memory": "64Mi"}, "limits": map[string]any{"memory": "256Mi"},
	}}}
	if b.profile != "" {
		resources["build"] = map[string]any{"profile": b.profile}
	}
	function.Spec = map[string]any{"resourceConfiguration": resources}
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
func (b *buildBench) secondPod(ctx context.Context, name string) (time.Duration, error) {
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

func (b *buildBench) scale(ctx context.Context, name string, replicas int32) error {
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
func (b *buildBench) remove(ctx context.Context, name string) error {
	function, err := b.cluster.Function(ctx, b.namespace, name)
	if err != nil {
		return err
	}
	if err := b.cluster.Delete(ctx, function); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	return b.cluster.AwaitNoPods(ctx, b.namespace, name, 2*time.Minute)
}

// round is what one round of one language took.
type round struct {
	inline, first, rebuild time.Duration
	podWithout, pod        time.Duration // until a second pod was ready, without and with dependencies
}

func (r *round) values() []*time.Duration {
	return []*time.Duration{&r.inline, &r.first, &r.rebuild, &r.podWithout, &r.pod}
}

func medianRound(rounds []round) round {
	var typical round
	for i, value := range typical.values() {
		column := make([]time.Duration, len(rounds))
		for n := range rounds {
			column[n] = *rounds[n].values()[i]
		}
		*value = framework.Percentile(column, 50)
	}
	return typical
}

// slower has the greater of both in each place.
func slower(a, b round) round {
	var worst round
	for i, value := range worst.values() {
		*value = max(*a.values()[i], *b.values()[i])
	}
	return worst
}

func header() string {
	return fmt.Sprintf("%-10s %-7s %9s %14s %10s %14s %14s", "runtime", "round", "inline_s", "first_build_s", "rebuild_s", "pod_without_s", "pod_with_s")
}

func line(runtime, name string, r round) string {
	return fmt.Sprintf("%-10s %-7s %9.2f %14.2f %10.2f %14.2f %14.2f", runtime, name,
		r.inline.Seconds(), r.first.Seconds(), r.rebuild.Seconds(), r.podWithout.Seconds(), r.pod.Seconds())
}
