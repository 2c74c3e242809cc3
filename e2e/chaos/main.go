// Command chaos publishes events while what carries them is killed, stopped and started, and sinks fail, hang and
// restart. Then it lets everything come to rest and accounts for each event by its id: delivered, dead-lettered, or
// lost. It runs three nats-servers, three bridges and their sinks as processes on loopback.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
)

const (
	perSecond = 700 // published, so that there is time for trouble
	shortest  = 20 * time.Second
)

func main() {
	rig.Main(run, map[string]rig.Role{"sink": sinkRole})
}

func run(ctx context.Context, r *rig.Rig) error {
	events := rig.Setting("EVENTS", 100_000)
	spread := max(time.Duration(events)*time.Second/perSecond, shortest)
	begun := time.Now()
	say := func(format string, args ...any) {
		fmt.Printf("%7.1fs  %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
	}
	s, err := newStage(ctx, r, events)
	if err != nil {
		return err
	}
	defer s.close()
	say("3 nats-servers, 3 bridges, %d Subscriptions; %d events within about %s", len(scenario()), events, spread.Round(time.Second))
	if err := s.perform(ctx, spread, say); err != nil {
		return err
	}
	say("all events are published; everything runs again and the sinks are healed")
	if err := s.heal(ctx); err != nil {
		return err
	}
	if err := s.settle(ctx, say); err != nil {
		return err
	}
	return s.report(ctx)
}
