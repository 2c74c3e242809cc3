// Command chaos publishes events while bridges are killed, nats-servers are stopped and started, streams and consumers
// are deleted, and sinks fail, hang and restart. Then it waits until no event is pending and accounts for each event by
// its id: delivered, dead-lettered, deleted with its stream or consumer, or lost. It runs three nats-servers, three
// bridges and their sinks as processes on loopback, once alone and once together with a hostile tenant that does
// everything a namespace can do to harm others.
package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	perSecond = 700 // published; leaves enough time for faults
	shortest  = 20 * time.Second
)

func main() {
	rig.Main(run, map[string]rig.Role{"sink": sinkRole, "hostile": hostileRole, "hostile-sink": hostileSinkRole})
}

// outcome is the result of one run.
type outcome struct {
	account
	latency
}

func run(ctx context.Context, r *rig.Rig) error {
	events := rig.Setting("EVENTS", 100_000) / 2 // per run
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

// act publishes all events during the faults and waits until no event is pending.
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

const (
	namespace   = "chaos"
	source      = "chaos"
	maxInFlight = 20
	// keyAttribute is the attribute by which events of an ordered Subscription are ordered.
	keyAttribute = "key"
)

// behaviour is the behaviour of a sink until it is healed.
type behaviour struct {
	name        string
	fail        int           // percent of the deliveries that get 500
	hang        int           // percent of the deliveries without a response
	refuseEvery int           // one in this many events always gets 422
	slow        time.Duration // maximum delay of a response
	restarts    bool
	keys        int              // values of the ordering attribute, 0 for no order
	delivery    routing.Delivery // of the Subscription
}

// scenario has one Subscription for each behaviour. The events are distributed among them in turn.
func scenario() []behaviour {
	return []behaviour{
		{name: "well"},
		{name: "failing", fail: 20},
		{name: "hanging", hang: 1, delivery: routing.Delivery{Timeout: 2 * time.Second}},
		{name: "restarting", restarts: true},
		{name: "refusing", refuseEvery: 50},
		{name: "impatient", fail: 20, delivery: routing.Delivery{MaxAttempts: 2, Backoff: routing.Backoff{Delay: 100 * time.Millisecond}}},
		{name: "ordered", fail: 10, slow: 50 * time.Millisecond, keys: 16, delivery: routing.Delivery{OrderedBy: keyAttribute, MaxAttempts: 1000}},
	}
}

func (b behaviour) eventType() string { return b.name + ".v1" }

func (b behaviour) route() routing.Route {
	route := rig.Route(namespace, b.name, source, b.eventType(), maxInFlight)
	route.Delivery = b.delivery
	return route
}

func (b behaviour) arguments(port int, journal string) []string {
	return []string{
		"-port", strconv.Itoa(port), "-journal", journal, "-fail", strconv.Itoa(b.fail),
		"-hang", strconv.Itoa(b.hang), "-refuse-every", strconv.Itoa(b.refuseEvery), "-slow", b.slow.String(),
	}
}

// bridgeFlags limit the cost of killed bridges and failing sinks to seconds instead of minutes.
func bridgeFlags() []string {
	return []string{fmt.Sprintf("--delivery-ack-wait=%s", ackWait), "--delivery-backoff=100ms", "--delivery-backoff-max=2s"}
}

const ackWait = 5 * time.Second

// orderedEvent is the position of an event among those of its key, which are published one after the other.
type orderedEvent struct{ key, position, before int }

// orderedEventOf returns false for events of an unordered Subscription. The first event of a key has a negative
// predecessor.
func orderedEventOf(id int) (orderedEvent, bool) {
	all := scenario()
	keys := all[id%len(all)].keys
	if keys == 0 {
		return orderedEvent{}, false
	}
	number := id / len(all)
	return orderedEvent{key: number % keys, position: number / keys, before: id - keys*len(all)}, true
}

// order evaluates the order of events in a sink's journal.
type order struct {
	last      map[int]int // position of the latest event of each key that was taken
	overtaken int         // number of events delivered after a later one
}

// note adds the next id of the journal, without repeats.
func (o *order) note(id int) {
	at, ordered := orderedEventOf(id)
	if !ordered {
		return
	}
	if last, some := o.last[at.key]; some && at.position < last {
		o.overtaken++
		return
	}
	o.last[at.key] = at.position
}

// fault stops and restarts one victim after the other.
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

// perform publishes all events within about the given time, and injects faults in the meantime.
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

// make injects the fault and returns when all victims run.
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

// delivered counts the entries of all journals, including repeats.
func (s *stage) delivered() (count int) {
	for _, j := range s.journals {
		if j.read() == nil { // otherwise it is read the next time
			count += j.total
		}
	}
	return count
}
