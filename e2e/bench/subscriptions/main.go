// Command subscriptions measures a bridge that serves very many Subscriptions: how long it takes to start, its memory and
// goroutines and what it asks of NATS, while all are idle and while one in a hundred is active. It does so once with sinks
// that are ready and once with sinks that sleep, as those of most Functions do.
package main

import (
	"context"
	"fmt"

	"github.com/rouse-run/rouse/e2e/rig"
)

func main() {
	rig.Main(measure, map[string]rig.Role{"sink": sinkRole})
}

// figures are those of one way to start the bridge.
type figures struct {
	start float64 // seconds
	rss   int     // MiB
}

func measure(ctx context.Context, r *rig.Rig) error {
	count, seconds := rig.Setting("SUBSCRIPTIONS", 10_000), rig.Setting("ROUND_SECONDS", 30) // as long as a pull request stands
	b, err := newBench(ctx, r, count)
	if err != nil {
		return err
	}
	defer b.close(ctx)
	fmt.Printf("%d Subscriptions on one bridge, one in %d of them active, %d s each\n", count, count/len(b.active), seconds)
	fmt.Printf("%-14s %-7s %9s %9s %11s %12s %11s %7s\n",
		"sinks", "state", "start s", "RSS MiB", "goroutines", "NATS calls/s", "events/s", "CPU %")
	worst := figures{}
	for _, asleep := range []bool{false, true} {
		f, err := b.run(ctx, asleep, seconds)
		if err != nil {
			return err
		}
		worst = figures{start: max(worst.start, f.start), rss: max(worst.rss, f.rss)}
	}
	fmt.Printf("subscriptions n=%d rss_mib=%d start_s=%.1f\n", count, worst.rss, worst.start)
	return nil
}
