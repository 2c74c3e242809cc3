// Command latency measures how long events take from their publisher to their sink through a bridge, beside the bare
// pair: the simplest handler that stores them and the simplest loop that delivers them. Events are published at a rate,
// and their time counts from the moment at which each one should have been sent.
package main

import (
	"context"
	"fmt"

	"github.com/rouse-run/rouse/e2e/bench/bare"
	"github.com/rouse-run/rouse/e2e/bench/load"
	"github.com/rouse-run/rouse/e2e/rig"
)

func main() {
	rig.Main(measure, map[string]rig.Role{
		"sink": sinkRole, "ingress": bare.Ingress, "deliver": bare.Deliver, "load": load.Publish,
	})
}

// figures are those of one pair at one rate, in milliseconds.
type figures struct{ p50, p99 []float64 }

func measure(ctx context.Context, r *rig.Rig) error {
	rounds, seconds := rig.Setting("ROUNDS", 3), rig.Setting("ROUND_SECONDS", 10)
	b, err := newBench(ctx, r)
	if err != nil {
		return err
	}
	fmt.Printf("events of 1 KiB from publisher to sink, %d s each, %d rounds\n", seconds, rounds)
	fmt.Printf("%-6s %9s  %-7s %9s %9s %9s %9s\n", "round", "events/s", "who", "events", "p50 ms", "p99 ms", "most ms")
	rates := []int{200, 2000}
	ours, theirs := map[int]*figures{}, map[int]*figures{}
	for _, rate := range rates {
		ours[rate], theirs[rate] = &figures{}, &figures{}
	}
	for round := range rounds {
		for _, rate := range rates {
			runs := []func() error{
				func() error { return b.run(ctx, round, rate, seconds, b.bridge, ours[rate]) },
				func() error { return b.run(ctx, round, rate, seconds, b.bare, theirs[rate]) },
			}
			if round%2 == 1 { // who comes second finds a warmer machine
				runs[0], runs[1] = runs[1], runs[0]
			}
			for _, run := range runs {
				if err := run(); err != nil {
					return err
				}
			}
		}
	}
	for _, rate := range rates {
		fmt.Printf("%d events/s: p50 %.2f ms, p99 %.2f ms; bare p50 %.2f ms, p99 %.2f ms\n", rate,
			rig.Median(ours[rate].p50), rig.Median(ours[rate].p99), rig.Median(theirs[rate].p50), rig.Median(theirs[rate].p99))
	}
	last := rates[len(rates)-1]
	fmt.Printf("latency p50_ms=%.2f p99_ms=%.2f bare_p50_ms=%.2f bare_p99_ms=%.2f\n",
		rig.Median(ours[last].p50), rig.Median(ours[last].p99), rig.Median(theirs[last].p50), rig.Median(theirs[last].p99))
	return nil
}
