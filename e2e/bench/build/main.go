// Command build measures how long a Function takes from its apply until it is Running: without dependencies, with two
// that are built for the first time, and with the same two under a changed source; and how fast a second pod of it is
// ready with and without dependencies.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/rouse-run/rouse/e2e/framework"
)

func main() {
	rounds := flag.Int("rounds", 5, "how often each language is measured")
	flag.Parse()
	framework.Main("bench-build", func(ctx context.Context) error { return run(ctx, *rounds) })
}

func run(ctx context.Context, rounds int) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	cluster, err := framework.Connect()
	if err != nil {
		return err
	}
	namespace, err := cluster.CreateNamespace(ctx, "bench")
	if err != nil {
		return err
	}
	defer func() { _ = cluster.DeleteNamespace(context.WithoutCancel(ctx), namespace) }()

	b := &bench{cluster: cluster, namespace: namespace, token: namespace}
	results := map[string][]round{}
	fmt.Println(header())
	for n := range rounds {
		for _, language := range languages() {
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
	for _, language := range languages() {
		typical := median(results[language.runtime])
		fmt.Println(line(language.runtime, "median", typical))
		worst = slower(worst, typical)
	}
	fmt.Printf("second pod without dependencies: %.2f s\n", worst.podWithout.Seconds())
	fmt.Printf("build inline_s=%.2f first_build_s=%.2f rebuild_s=%.2f second_pod_start_s=%.2f\n",
		worst.inline.Seconds(), worst.first.Seconds(), worst.rebuild.Seconds(), worst.pod.Seconds())
	return nil
}
