package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/bench/bare"
	"github.com/rouse-run/rouse/e2e/bench/load"
	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
)

const (
	connections = 64
	maxInFlight = 100
	warmUp      = 2 * time.Second
	timeout     = time.Minute
)

// pair takes events and delivers them.
type pair struct{ name, target, eventType string }

// bench is a server, a sink and a publisher, and both pairs, each with a consumer of its own.
type bench struct {
	bridge, bare pair
	sink, load   string
}

func newBench(ctx context.Context, r *rig.Rig) (*bench, error) {
	server, err := r.StartNATS(rig.NATS{Name: "nats"})
	if err != nil {
		return nil, err
	}
	sink, err := r.Start("sink")
	if err != nil {
		return nil, err
	}
	load, err := r.Start("load")
	if err != nil {
		return nil, err
	}
	ours := rig.Route("bench", "ours", "bench", "ours.v1", maxInFlight)
	theirs := rig.Route("bench", "bare", "bench", "bare.v1", bare.Prefetch)
	fixture := rig.Fixture{NATS: server.Where, Endpoints: map[string][]string{
		ours.Service.String(): {strings.TrimPrefix(sink.Where, "http://")},
	}}
	fixture.Routes = append(fixture.Routes, ours, theirs)
	if err := fixture.PrepareAlone(ctx, broker.DefaultStreamOptions(), 30*time.Second); err != nil {
		return nil, err
	}
	fixture.Routes = fixture.Routes[:1]
	bridge, err := r.StartBridge(fixture, 0)
	if err != nil {
		return nil, err
	}
	ingress, err := r.Start("ingress", server.Where)
	if err != nil {
		return nil, err
	}
	if _, err := r.Start("deliver", server.Where, theirs.Consumer, sink.Where, strconv.Itoa(maxInFlight)); err != nil {
		return nil, err
	}
	return &bench{
		bridge: pair{"bridge", bridge.Address(rig.Public), "ours.v1"}, bare: pair{"bare", ingress.Where, "bare.v1"}, sink: sink.Where, load: load.Where,
	}, nil
}

// run publishes to one of the pairs and asks the sink for what came.
func (b *bench) run(ctx context.Context, round, rate, seconds int, p pair, f *figures) error {
	counted := time.Now().Add(warmUp)
	if err := rig.GetJSON(ctx, fmt.Sprintf("%s/reset?from=%d", b.sink, counted.UnixNano()), nil); err != nil {
		return err
	}
	published, err := load.Order{
		Target: strings.TrimPrefix(p.target, "http://"), Prefix: fmt.Sprintf("%s-%d-%d", p.name, rate, round), Type: p.eventType,
		Connections: connections, WarmUp: warmUp, Duration: time.Duration(seconds) * time.Second, PerSecond: rate,
	}.Run(ctx, b.load)
	if err != nil {
		return fmt.Errorf("publish to the %s: %w", p.name, err)
	}
	seen, err := b.await(ctx, published.Answered)
	if err != nil {
		return fmt.Errorf("events of the %s: %w", p.name, err)
	}
	f.p50, f.p99 = append(f.p50, seen.P50), append(f.p99, seen.P99)
	fmt.Printf("%-6d %9d  %-7s %9d %9.2f %9.2f %9.2f\n", round+1, rate, p.name, seen.Events, seen.P50, seen.P99, seen.Most)
	return nil
}

// await returns when the sink has the published events. The publisher began to count a moment after the sink.
func (b *bench) await(ctx context.Context, published int) (s seen, err error) {
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline) && ctx.Err() == nil; {
		if err := rig.GetJSON(ctx, b.sink+"/seen", &s); err != nil || s.Events >= published {
			return s, err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return s, fmt.Errorf("the sink has %d of %d after %s", s.Events, published, timeout)
}
