package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/rig"
)

// fault ends one victim after the other and starts each again.
type fault struct {
	victims            []*victim
	first, every, down time.Duration
	end                func(*rig.Process) error
}

func kill(p *rig.Process) error {
	p.Kill()
	return nil
}

func (s *stage) faults() []fault {
	all := []fault{
		{s.bridges, 2 * time.Second, 3 * time.Second, 500 * time.Millisecond, kill},
		{s.nats, 6 * time.Second, 16 * time.Second, 4 * time.Second, (*rig.Process).Stop},
	}
	for i, b := range scenario() {
		if b.restarts {
			all = append(all, fault{s.sinks[i : i+1], 4 * time.Second, 6 * time.Second, time.Second, kill})
		}
	}
	return all
}

// perform publishes all events within about the given time and injects faults until that is done.
func (s *stage) perform(ctx context.Context, spread time.Duration, logf func(string, ...any)) error {
	group, ctx := errgroup.WithContext(ctx)
	troubled, published := context.WithCancel(ctx)
	defer published()
	progress := make(chan int, len(s.events))
	group.Go(func() error {
		defer published()
		return s.publish(ctx, spread, progress)
	})
	for _, t := range s.faults() {
		group.Go(func() error { return t.make(troubled) })
	}
	group.Go(func() error { return s.deleteByHand(troubled, logf) })
	group.Go(func() error {
		for troubled.Err() == nil {
			pause(troubled, 5*time.Second)
			logf("published %6d   taken by sinks %6d   killed bridges %3d   stopped nats-servers %2d",
				len(progress), s.delivered(), ended(s.bridges), ended(s.nats))
		}
		return nil
	})
	return group.Wait()
}

// make returns when all victims run.
func (t fault) make(ctx context.Context) error {
	pause(ctx, t.first)
	for i := 0; ctx.Err() == nil; i++ {
		v := t.victims[i%len(t.victims)]
		if err := t.end(v.process); err != nil {
			return fmt.Errorf("end %s: %w", v.name, err)
		}
		v.ended++
		pause(ctx, t.down)
		if err := v.run(); err != nil {
			return err
		}
		pause(ctx, t.every)
	}
	return nil
}

func ended(victims []*victim) (count int) {
	for _, v := range victims {
		count += v.ended
	}
	return count
}

// delivered counts the entries of all journals, repeats included.
func (s *stage) delivered() (count int) {
	for _, j := range s.journals {
		if j.read() == nil { // else it is read the next time
			count += j.total
		}
	}
	return count
}
