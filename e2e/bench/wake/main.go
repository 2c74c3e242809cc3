// Command wake measures how long a sleeping Function takes from a publish to the first byte at its handler,
// beside a bare scale of the same pod from 0 to 1 until it is Ready. Both take turns in one run, so that both see the
// same machine.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/rouse-run/rouse/e2e/framework"
)

func main() {
	rounds := flag.Int("rounds", 20, "how many wakes and how many bare scale-ups")
	runtime := flag.String("runtime", nodeRuntime, "runtime of the Function: "+nodeRuntime+" or "+goRuntime)
	flag.Parse()
	framework.Main("bench-wake", func(ctx context.Context) error { return run(ctx, *runtime, *rounds) })
}

func run(ctx context.Context, runtime string, rounds int) error {
	source, known := sources[runtime]
	if !known {
		return fmt.Errorf("-runtime %q: use %s or %s", runtime, nodeRuntime, goRuntime)
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
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

	b := &bench{cluster: cluster, namespace: namespace, runtime: runtime, source: source}
	fmt.Println("preparing a Function of " + runtime + ", the same pod without Rouse, and a ledger ...")
	if err := b.prepare(ctx); err != nil {
		return err
	}
	var wakes, bares []time.Duration
	for round := range rounds {
		wake, err := b.wake(ctx, fmt.Sprintf("wake-%d", round))
		if err != nil {
			return err
		}
		bare, err := b.bare(ctx)
		if err != nil {
			return err
		}
		wakes, bares = append(wakes, wake), append(bares, bare)
		fmt.Printf("%2d/%d  wake %5d ms   bare %5d ms\n", round+1, rounds, wake.Milliseconds(), bare.Milliseconds())
	}
	p50, p95, bare := framework.Percentile(wakes, 50), framework.Percentile(wakes, 95), framework.Percentile(bares, 50)
	fmt.Printf("wake p50_ms=%d p95_ms=%d bare_ready_p50_ms=%d ratio=%.2f\n",
		p50.Milliseconds(), p95.Milliseconds(), bare.Milliseconds(), float64(p50)/float64(bare))
	return nil
}
