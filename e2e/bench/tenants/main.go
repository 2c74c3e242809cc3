// Command tenants measures what one tenant notices of another one that attacks all that they share: how long an apply, an event, a
// request to a Function that sleeps, a deploy from Git and a build take beside a hostile tenant, and alone, in the same run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/rouse-run/rouse/e2e/framework"
	"github.com/rouse-run/rouse/e2e/rig"
)

func main() {
	rounds := flag.Int("rounds", 5, "how often the quiet tenant does everything, alone and beside the hostile one")
	events := flag.Int("events", 200, "how many events of a round are measured")
	flag.Parse()
	framework.Main("bench-tenants", func(ctx context.Context) error { return run(ctx, *rounds, *events) })
}

func run(ctx context.Context, rounds, events int) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 40*time.Minute)
	defer cancel()
	cluster, err := framework.Connect()
	if err != nil {
		return err
	}
	quiet, hostile := &quiet{cluster: cluster, events: events}, &hostile{cluster: cluster}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Minute)
		defer cancel()
		if err != nil && quiet.namespace != "" {
			cluster.Dump(ending, os.Stderr, quiet.namespace)
		}
		err = errors.Join(err, hostile.end(ending), quiet.end(ending))
	}()
	fmt.Println("setting up a quiet tenant ...")
	if err := quiet.prepare(ctx); err != nil {
		return err
	}
	if _, err := quiet.measure(ctx, "warm-up", 1); err != nil {
		return err
	}
	alone, err := quiet.measure(ctx, "alone", rounds)
	if err != nil {
		return err
	}
	before, err := restarts(ctx, cluster)
	if err != nil {
		return err
	}
	fmt.Println("setting up a hostile tenant ...")
	if err := hostile.attack(ctx); err != nil {
		return err
	}
	beside, err := quiet.measure(ctx, "beside", rounds)
	if err != nil {
		return err
	}
	report, err := hostile.report(ctx)
	if err != nil {
		return err
	}
	fmt.Println("meanwhile the hostile tenant had:", report)
	after, err := restarts(ctx, cluster)
	if err != nil {
		return err
	}
	explain(alone, beside)
	fmt.Printf("tenants quiet_apply_ratio=%.2f quiet_event_p99_ratio=%.2f quiet_wake_ratio=%.2f quiet_git_ratio=%.2f quiet_build_ratio=%.2f restarts=%d\n",
		ratio(alone, beside, "apply"), ratio(alone, beside, "event"), ratio(alone, beside, "wake"), ratio(alone, beside, "git"),
		ratio(alone, beside, "build"), after-before)
	return nil
}

// restarts counts those of all of Rouse's containers. A container that was out of memory has restarted.
func restarts(ctx context.Context, cluster *framework.Cluster) (count int32, err error) {
	pods := &corev1.PodList{}
	if err := cluster.List(ctx, pods, client.InNamespace(framework.System)); err != nil {
		return 0, fmt.Errorf("count the restarts: %w", err)
	}
	for i := range pods.Items {
		for _, status := range pods.Items[i].Status.ContainerStatuses {
			count += status.RestartCount
		}
	}
	return count, nil
}

// typical is the 99th percentile of events, of which there are many, and the median of what is done once a round.
func typical(of measured, what string) float64 {
	if what == "event" {
		return rig.Milliseconds(of[what], 99)
	}
	return rig.Milliseconds(of[what], 50)
}

func ratio(alone, beside measured, what string) float64 {
	return typical(beside, what) / typical(alone, what)
}

func explain(alone, beside measured) {
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(table, "\talone ms\tbeside ms\tslowest beside ms\tratio\t")
	for _, what := range kinds {
		_, _ = fmt.Fprintf(table, "%s\t%.0f\t%.0f\t%.0f\t%.2f\t\n", what, typical(alone, what), typical(beside, what),
			rig.Milliseconds(beside[what], 100), ratio(alone, beside, what))
	}
	_ = table.Flush()
}
