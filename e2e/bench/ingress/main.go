// Command ingress measures how fast a bridge takes events, beside the simplest handler that can do it: read the body,
// publish it, answer when the stream has confirmed. Both have the same server and the same publisher.
package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/bench/bare"
	"github.com/rouse-run/rouse/e2e/bench/load"
	"github.com/rouse-run/rouse/e2e/rig"
)

const (
	warmUp    = time.Second
	eventType = "measured.v1"
)

func main() {
	rig.Main(measure, map[string]rig.Role{"bare": bare.Ingress, "load": load.Publish})
}

// figures are those of one kind of ingress with one number of connections.
type figures struct{ perSecond, p99 []float64 }

func (f *figures) add(result load.Result) {
	f.perSecond, f.p99 = append(f.perSecond, result.PerSecond), append(f.p99, result.P99)
}

func measure(ctx context.Context, r *rig.Rig) error {
	rounds, seconds := rig.Setting("ROUNDS", 3), rig.Setting("ROUND_SECONDS", 8)
	b, err := newBench(ctx, r)
	if err != nil {
		return err
	}
	defer b.conn.Close()
	b.duration = time.Duration(seconds) * time.Second
	fmt.Printf("binary events of 1 KiB, %d s each, %d rounds\n", seconds, rounds)
	fmt.Printf("%-6s %11s  %-7s %10s %9s %9s\n", "round", "connections", "who", "requests/s", "p50 ms", "p99 ms")
	ours, theirs := map[int]*figures{32: {}, 128: {}}, map[int]*figures{32: {}, 128: {}}
	for round := range rounds {
		for _, connections := range []int{32, 128} {
			runs := []func() error{
				func() error { return b.run(ctx, round, connections, "bridge", b.bridge, ours[connections]) },
				func() error { return b.run(ctx, round, connections, "bare", b.bare, theirs[connections]) },
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
	if err := b.process.Stop(); err != nil { // rather than kill it: it may have a profile to write
		return err
	}
	fmt.Printf("ingress ratio_32=%.2f ratio_128=%.2f requests_per_s=%.0f p99_ms=%.1f\n",
		ratio(ours[32], theirs[32]), ratio(ours[128], theirs[128]),
		rig.Median(ours[128].perSecond), rig.Median(ours[128].p99))
	return nil
}

func ratio(ours, theirs *figures) float64 {
	return rig.Median(ours.perSecond) / rig.Median(theirs.perSecond)
}

// run publishes to one of them, into a stream that is as empty as for the others.
func (b *bench) run(ctx context.Context, round, connections int, who, target string, f *figures) error {
	if err := b.empty(ctx); err != nil {
		return err
	}
	result, err := load.Order{
		Target: strings.TrimPrefix(target, "http://"), Prefix: fmt.Sprintf("%s-%d-%d", who, connections, round), Type: eventType,
		Connections: connections, WarmUp: warmUp, Duration: b.duration,
	}.Run(ctx, b.load)
	if err != nil {
		return fmt.Errorf("publish to %s: %w", who, err)
	}
	f.add(result)
	fmt.Printf("%-6d %11d  %-7s %10.0f %9.2f %9.2f\n", round+1, connections, who, result.PerSecond, result.P50, result.P99)
	return nil
}
