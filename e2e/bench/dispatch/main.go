// Command dispatch measures how fast a bridge delivers stored events, beside the simplest loop that can do it: pull, POST
// the bytes, ack. Both have the same server, the same sink and the same limit of deliveries in flight.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rouse-run/rouse/e2e/bench/bare"
	"github.com/rouse-run/rouse/e2e/rig"
)

func main() {
	rig.Main(measure, map[string]rig.Role{"sink": sinkRole, "bare": bare.Deliver})
}

// restTime is how long a dispatcher has had no event when its memory is read: Go gives back what it does not need by then.
const restTime = 10 * time.Second

// figures are those of one kind of dispatcher with one limit.
type figures struct {
	perSecond []float64
	cpuMicros []float64
	rss       int // at most
	rest      int // a while after the last event
}

func measure(ctx context.Context, r *rig.Rig) error {
	events, rounds := rig.Setting("EVENTS", 100_000), rig.Setting("ROUNDS", 3)
	b, err := newBench(ctx, r, events)
	if err != nil {
		return err
	}
	defer b.close(ctx)
	fmt.Printf("%d stored events of 1 KiB, to a sink that answers 204, %d rounds\n", events, rounds)
	fmt.Printf("%-6s %9s  %-7s %10s %14s %9s\n", "round", "in flight", "who", "events/s", "CPU us/event", "RSS MiB")
	ours, bare := map[int]*figures{10: {}, 100: {}}, map[int]*figures{10: {}, 100: {}}
	for round := range rounds {
		for _, limit := range []int{10, 100} {
			runs := []func() error{
				func() error { return b.run(ctx, round, limit, "bridge", b.startBridge, ours[limit]) },
				func() error { return b.run(ctx, round, limit, "bare", b.startBare, bare[limit]) },
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
	fmt.Printf("at rest with a full journal: %d MiB; the bare loop: %d MiB\n", ours[100].rest, bare[100].rest)
	fmt.Printf("dispatch ratio_10=%.2f ratio_100=%.2f events_per_s=%.0f cpu_us_per_event=%.0f rss_mib=%d\n",
		ratio(ours[10], bare[10]), ratio(ours[100], bare[100]), rig.Median(ours[100].perSecond),
		rig.Median(ours[100].cpuMicros), max(ours[10].rss, ours[100].rss))
	return nil
}

func ratio(ours, bare *figures) float64 {
	return rig.Median(ours.perSecond) / rig.Median(bare.perSecond)
}

// starter stores the events and starts a dispatcher, which has so many deliveries in flight.
type starter func(ctx context.Context, limit int) (*rig.Process, error)

// run lets one dispatcher deliver everything, from its start to the last event.
func (b *bench) run(ctx context.Context, round, limit int, who string, start starter, f *figures) error {
	p, err := start(ctx, limit)
	if err != nil {
		return err
	}
	defer func() { _ = p.Stop() }()
	if err := b.await(ctx, 1); err != nil {
		return err
	}
	begun, atBegin, err := b.mark(ctx, p)
	if err != nil {
		return err
	}
	if err := b.await(ctx, b.events); err != nil {
		return err
	}
	took := time.Since(begun)
	cpu, err := p.CPU()
	if err != nil {
		return err
	}
	rss, err := p.PeakRSS()
	if err != nil {
		return err
	}
	if f.rest, err = b.atRest(ctx, p); err != nil {
		return err
	}
	perSecond := float64(b.events) / took.Seconds()
	cpuMicros := float64((cpu - atBegin).Microseconds()) / float64(b.events)
	f.perSecond, f.cpuMicros, f.rss = append(f.perSecond, perSecond), append(f.cpuMicros, cpuMicros), max(f.rss, rss)
	fmt.Printf("%-6d %9d  %-7s %10.0f %14.1f %9d\n", round+1, limit, who, perSecond, cpuMicros, rss)
	return nil
}

// atRest is the memory that a dispatcher keeps, with what it remembers.
func (b *bench) atRest(ctx context.Context, p *rig.Process) (int, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(restTime):
		return p.RSS()
	}
}

// mark is the moment from which time and CPU count.
func (b *bench) mark(_ context.Context, p *rig.Process) (time.Time, time.Duration, error) {
	cpu, err := p.CPU()
	return time.Now(), cpu, err
}
