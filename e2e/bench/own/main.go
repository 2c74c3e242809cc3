package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/rig"
)

// The rate of events, and how many are in flight at most.
const (
	perSecond = 10_000
	inFlight  = 100
)

// worthwhile is what part of a bridge's CPU own code has to spare.
const worthwhile = 0.15

func main() {
	rig.Main(measure, map[string]rig.Role{"sink": sinkRole})
}

// sinkRole answers 204 to every event.
func sinkRole(ctx context.Context, ready func(string), _ []string) error {
	return rig.Serve(ctx, 0, ready, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
}

func measure(ctx context.Context, r *rig.Rig) error {
	rounds, seconds := rig.Setting("ROUNDS", 5), rig.Setting("ROUND_SECONDS", 3)
	events := seconds * perSecond
	sink, err := r.Start("sink")
	if err != nil {
		return err
	}
	server, err := startServer(ctx, r, events)
	if err != nil {
		return err
	}
	defer server.close(ctx)
	bridge, err := newBridge(ctx, r, server, sink.Where)
	if err != nil {
		return err
	}
	clients, err := newClients(ctx, strings.TrimPrefix(sink.Where, "http://"))
	if err != nil {
		return err
	}
	defer clients.close()
	groups := chosen([]group{clients.group(events), storing(), delivering(), server.group(events)}, os.Getenv("JOB"))
	fmt.Printf("events of 1 KiB at %d/s, %d in flight, %d rounds of %d s\n", perSecond, inFlight, rounds, seconds)
	all, err := play(ctx, groups, bridge, rounds, events)
	if err != nil {
		return err
	}
	report(groups, all, rig.Median(bridge.micros))
	return nil
}

// play has the rounds, and returns the figures of each variant of each group.
func play(ctx context.Context, groups []group, bridge *bridge, rounds, events int) ([][]*figures, error) {
	all := make([][]*figures, len(groups))
	for i, g := range groups {
		for range g.variants {
			all[i] = append(all[i], &figures{})
		}
	}
	for round := range rounds {
		if err := bridge.deliver(ctx, events); err != nil {
			return nil, err
		}
		for i, g := range groups {
			if err := g.measure(ctx, round, all[i]); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// chosen are all jobs, or the one that is named.
func chosen(groups []group, name string) []group {
	if name == "" {
		return groups
	}
	return slices.DeleteFunc(groups, func(g group) bool { return g.name != name })
}

// report prints the medians, and what our own variants spare beside the others.
func report(groups []group, all [][]*figures, bridge float64) {
	fmt.Printf("a bridge takes %.1f us of CPU for an event that it delivers; %.0f %% of that are %.1f us\n",
		bridge, 100*worthwhile, worthwhile*bridge)
	fmt.Printf("%-8s %-19s %7s %13s %7s %11s %14s\n", "job", "who", "CPU us", "least - most", "allocs", "own spares", "of the bridge")
	var line strings.Builder
	fmt.Fprintf(&line, "own bridge_us=%.1f", bridge)
	for i, g := range groups {
		for j, v := range g.variants {
			f := all[i][j]
			spared := f.cpu() - all[i][0].cpu()
			fmt.Printf("%-8s %-19s %7.2f %5.1f - %5.1f %7.1f %11.2f %12.1f %%\n", g.name, v.name,
				f.cpu(), slices.Min(f.micros), slices.Max(f.micros), rig.Median(f.allocations), spared, 100*spared/bridge)
			if j > 0 {
				fmt.Fprintf(&line, " %s_%s=%.1f", g.name, strings.ReplaceAll(v.name, "/", "_"), spared)
			}
		}
	}
	fmt.Println(line.String())
}

// variant is one way to do a job.
type variant struct {
	name string
	// run does the job so many times.
	run func(ctx context.Context, events int) error
}

// group is one job with its variants, the first of which is our own.
type group struct {
	name     string
	events   int
	variants []variant
}

// measure has one round of all variants.
func (g group) measure(ctx context.Context, round int, all []*figures) error {
	for i := range g.variants {
		i = (i + round) % len(g.variants) // the first finds a colder machine
		if err := all[i].measure(ctx, g.variants[i], g.events); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	return nil
}

// figures are those of a variant, for each round.
type figures struct{ micros, allocations []float64 }

// measure runs a variant and notes what an event took of this process.
func (f *figures) measure(ctx context.Context, v variant, events int) error {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	used, err := cpu()
	if err != nil {
		return err
	}
	if err := v.run(ctx, events); err != nil {
		return fmt.Errorf("%s: %w", v.name, err)
	}
	now, err := cpu()
	if err != nil {
		return err
	}
	runtime.ReadMemStats(&after)
	f.micros = append(f.micros, float64((now-used).Nanoseconds())/1000/float64(events))
	f.allocations = append(f.allocations, float64(after.Mallocs-before.Mallocs)/float64(events))
	return nil
}

func (f *figures) cpu() float64 { return rig.Median(f.micros) }

// cpu is the processor time that this process has used.
func cpu() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("read CPU time: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// paced calls do so many times at a rate, spread over workers. It returns when all calls have.
func paced(ctx context.Context, events, rate, workers int, do func() error) error {
	calls := make(chan struct{}, workers)
	running, ctx := errgroup.WithContext(ctx)
	for range workers {
		running.Go(func() error {
			for range calls {
				if err := do(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	running.Go(func() error {
		defer close(calls)
		return pace(ctx, events, rate, func() error {
			select {
			case calls <- struct{}{}:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	return running.Wait()
}

// pace calls do so many times at a rate. It sleeps a millisecond at a time and then makes up for it, as events come in
// batches to a bridge as well.
func pace(ctx context.Context, events, rate int, do func() error) error {
	for start, done := time.Now(), 0; done < events; {
		due := min(int(time.Since(start).Seconds()*float64(rate)), events)
		for ; done < due; done++ {
			if err := do(); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}
