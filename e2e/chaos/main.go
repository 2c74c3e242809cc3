// Command chaos publishes events while bridges are killed, nats-servers are stopped and started, streams and consumers are
// deleted by hand, and sinks fail, hang and restart. Then it waits until nothing is pending and accounts for each event by its
// id: delivered, dead-lettered, deleted with its stream or consumer, or lost. It runs three nats-servers, three bridges and
// their sinks as processes on loopback, once alone and once beside a hostile tenant that does what one namespace can do to
// others.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
)

const (
	perSecond = 700 // published, so that there is time for faults
	shortest  = 20 * time.Second
)

func main() {
	rig.Main(run, map[string]rig.Role{"sink": sinkRole, "hostile": hostileRole, "hostile-sink": hostileSinkRole})
}

// outcome is what one performance came to.
type outcome struct {
	account
	latency
}

func run(ctx context.Context, r *rig.Rig) error {
	events := rig.Setting("EVENTS", 100_000) / 2 // each time
	alone, err := act(ctx, r, "alone", events, false)
	if err != nil {
		return err
	}
	beside, err := act(ctx, r, "beside", events, true)
	if err != nil {
		return err
	}
	fmt.Printf("\n%-24s %12s %12s\n", "publish to sink", "p50 ms", "p99 ms")
	fmt.Printf("%-24s %12.1f %12.1f\n", "without hostile tenant", alone.p50, alone.p99)
	fmt.Printf("%-24s %12.1f %12.1f\n", "with it", beside.p50, beside.p99)
	all := alone.account
	all.add(beside.account)
	fmt.Printf("chaos published=%d acked=%d deadlettered=%d pending=%d lost=%d deleted=%d duplicates=%d other_tenant_p99_ms=%.0f without_hostile_p99_ms=%.0f\n",
		all.published, all.acked, all.deadLettered, all.pending, all.lost, all.deleted, all.duplicates, beside.p99, alone.p99)
	if all.lost > 0 || all.pending > 0 {
		return errors.New("events are lost or still pending")
	}
	return nil
}

// act publishes all events during the faults and waits until nothing is pending.
func act(ctx context.Context, r *rig.Rig, name string, events int, hostile bool) (o outcome, err error) {
	spread := max(time.Duration(events)*time.Second/perSecond, shortest)
	begun := time.Now()
	logf := func(format string, args ...any) {
		fmt.Printf("%-6s %7.1fs  %s\n", name, time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
	}
	s, err := newStage(ctx, r, name, events, hostile)
	if err != nil {
		return outcome{}, err
	}
	defer s.close()
	logf("3 nats-servers, 3 bridges, %d Subscriptions; %d events within about %s", len(scenario()), events, spread.Round(time.Second))
	if hostile {
		attacker, err := s.attack()
		if err != nil {
			return outcome{}, err
		}
		defer attacker.Kill()
		logf("and a hostile tenant with %d Subscriptions", len(attacks()))
	}
	ctx, stop := context.WithCancel(ctx)
	kept := make(chan error, 1)
	go func() { kept <- s.keep(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-kept)
	}()
	if err := s.perform(ctx, spread, logf); err != nil {
		return outcome{}, err
	}
	logf("all events are published; everything runs again and the sinks are healed")
	if err := s.heal(ctx); err != nil {
		return outcome{}, err
	}
	if err := s.settle(ctx, logf); err != nil {
		return outcome{}, err
	}
	if o.account, err = s.report(ctx); err != nil {
		return outcome{}, err
	}
	o.latency = s.latency()
	return o, nil
}
