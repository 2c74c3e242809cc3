package main

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/rig"
)

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
