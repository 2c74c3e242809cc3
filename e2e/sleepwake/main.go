// Command sleepwake repeatedly puts a Function, or another workload, to sleep and wakes it, under a load over new and persistent connections,
// and fails when a request gets no response or is handled twice.
package main

import (
	"context"
	"flag"
	"fmt"
	"slices"

	"github.com/rouse-run/rouse/e2e/framework"
)

func main() { framework.Main("sleepwake", run) }

func run(ctx context.Context) error {
	rounds := flag.Int("rounds", 100, "how often it sleeps and wakes")
	target := flag.String("target", string(framework.SleepingFunction), fmt.Sprintf("what sleeps and wakes: one of %v", framework.Sleepers()))
	flag.Parse()
	sleeper := framework.Sleeper(*target)
	if !slices.Contains(framework.Sleepers(), sleeper) {
		return fmt.Errorf("-target %s: must be one of %v", *target, framework.Sleepers())
	}
	cluster, namespace, end, err := framework.ConnectWithin(ctx, "sleepwake")
	if err != nil {
		return err
	}
	defer end()
	report, err := framework.SleepAndWake(ctx, cluster, namespace, sleeper, *rounds, func(format string, values ...any) {
		fmt.Printf(format+"\n", values...)
	})
	if err != nil {
		return err
	}
	for _, failure := range report.Failures {
		fmt.Println("failed:", failure)
	}
	fmt.Printf("sleepwake target=%s rounds=%d requests=%d waited=%d errors=%d doubles=%d\n",
		sleeper, report.Rounds, report.Asked, report.Waited, report.Failed, report.Doubles)
	if report.Failed+report.Doubles > 0 {
		return fmt.Errorf("%d requests failed and %d were handled twice", report.Failed, report.Doubles)
	}
	return nil
}
