package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
)

const (
	ingressWarmUp = time.Second
	ingressType   = "measured.v1"
)

// benchIngress measures how fast a bridge takes events, beside the simplest handler that can do it: read the body,
// publish it, answer when the stream has confirmed. Both have the same server and the same publisher. One server syncs
// each event before it confirms it, as the chart ships it, and one does not.
func benchIngress(ctx context.Context, args []string) error {
	return rig.Run(ctx, "ingress", args, measureIngress, map[string]rig.Role{"bare": bareIngress, "load": loadRole})
}

// ingressFigures are those of one kind of ingress with one number of connections.
type ingressFigures struct{ perSecond, p99 []float64 }

func (f *ingressFigures) add(result loadResult) {
	f.perSecond, f.p99 = append(f.perSecond, result.PerSecond), append(f.p99, result.P99)
}

var ingressConnections = []int{32, 128}

func measureIngress(ctx context.Context, r *rig.Rig) error {
	rounds, seconds := rig.Setting("ROUNDS", 3), rig.Setting("ROUND_SECONDS", 8)
	load, err := r.Start("load")
	if err != nil {
		return err
	}
	var benches []*ingressBench
	for _, sync := range []string{"2m", "always"} {
		b, err := newIngressBench(ctx, r, sync)
		if err != nil {
			return err
		}
		defer b.conn.Close()
		b.load, b.duration = load.Where, time.Duration(seconds)*time.Second
		benches = append(benches, b)
	}
	fmt.Printf("binary events of 1 KiB, %d s each, %d rounds\n", seconds, rounds)
	fmt.Printf("%-6s %-7s %11s  %-7s %10s %9s %9s\n", "round", "sync", "connections", "who", "requests/s", "p50 ms", "p99 ms")
	for round := range rounds {
		for _, b := range benches {
			if err := b.round(ctx, round); err != nil {
				return err
			}
		}
	}
	for _, b := range benches {
		if err := b.process.Stop(); err != nil { // rather than kill it: it may have a profile to write
			return err
		}
	}
	lazy, synced := benches[0], benches[1]
	fmt.Printf("ingress ratio_32=%.2f ratio_128=%.2f sync_ratio_32=%.2f sync_ratio_128=%.2f"+
		" requests_per_s=%.0f sync_requests_per_s=%.0f p99_ms=%.1f sync_p99_ms=%.1f\n",
		lazy.ratio(32), lazy.ratio(128), synced.ratio(32), synced.ratio(128),
		rig.Median(lazy.ours[128].perSecond), rig.Median(synced.ours[128].perSecond),
		rig.Median(lazy.ours[128].p99), rig.Median(synced.ours[128].p99))
	return nil
}

// round measures both kinds of ingress. Who comes second finds a warmer machine, so they take turns.
func (b *ingressBench) round(ctx context.Context, round int) error {
	for _, connections := range ingressConnections {
		runs := []func() error{
			func() error { return b.run(ctx, round, connections, "bridge", b.bridge, b.ours[connections]) },
			func() error { return b.run(ctx, round, connections, "bare", b.bare, b.theirs[connections]) },
		}
		if round%2 == 1 {
			runs[0], runs[1] = runs[1], runs[0]
		}
		for _, run := range runs {
			if err := run(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *ingressBench) ratio(connections int) float64 {
	return rig.Median(b.ours[connections].perSecond) / rig.Median(b.theirs[connections].perSecond)
}

// run publishes to one of them, into a stream that is as empty as for the others.
func (b *ingressBench) run(ctx context.Context, round, connections int, who, target string, f *ingressFigures) error {
	if err := b.empty(ctx); err != nil {
		return err
	}
	result, err := order{
		Target: strings.TrimPrefix(target, "http://"), Prefix: fmt.Sprintf("%s-%d-%d", who, connections, round), Type: ingressType,
		Connections: connections, WarmUp: ingressWarmUp, Duration: b.duration,
	}.Run(ctx, b.load)
	if err != nil {
		return fmt.Errorf("publish to %s: %w", who, err)
	}
	f.add(result)
	fmt.Printf("%-6d %-7s %11d  %-7s %10.0f %9.2f %9.2f\n", round+1, b.sync, connections, who, result.PerSecond, result.P50, result.P99)
	return nil
}

// ingressBench is a server, both kinds of ingress and what they took.
type ingressBench struct {
	sync               string       // nats-server's sync_interval
	process            *rig.Process // of the bridge
	bridge, bare, load string
	conn               *nats.Conn
	stream             jetstream.Stream
	duration           time.Duration           // of a measurement
	ours, theirs       map[int]*ingressFigures // by connections
}

func newIngressBench(ctx context.Context, r *rig.Rig, sync string) (*ingressBench, error) {
	server, err := r.StartNATS(rig.NATS{Name: natsName + "-" + sync, Sync: sync})
	if err != nil {
		return nil, err
	}
	// A Subscription whose sink sleeps: without one the stream would keep nothing.
	fixture := rig.Fixture{NATS: server.Where}
	asleep := rig.Route(benchName, "asleep", benchName, ingressType, 10)
	fixture.Routes = append(fixture.Routes, asleep)
	if err := fixture.PrepareAlone(ctx, broker.DefaultStreamOptions(), 30*time.Second); err != nil {
		return nil, err
	}
	conn, err := nats.Connect(server.Where)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	stream, err := js.Stream(ctx, broker.DefaultStream)
	if err != nil {
		return nil, fmt.Errorf("find the stream: %w", err)
	}
	bridge, err := r.StartBridge(fixture, 0)
	if err != nil {
		return nil, err
	}
	bare, err := r.Start("bare", server.Where)
	if err != nil {
		return nil, err
	}
	b := &ingressBench{sync: sync, process: bridge, bridge: bridge.Address(rig.Public), bare: bare.Where, conn: conn, stream: stream}
	b.ours, b.theirs = map[int]*ingressFigures{}, map[int]*ingressFigures{}
	for _, connections := range ingressConnections {
		b.ours[connections], b.theirs[connections] = &ingressFigures{}, &ingressFigures{}
	}
	return b, nil
}

func (b *ingressBench) empty(ctx context.Context) error {
	if err := b.stream.Purge(ctx); err != nil {
		return fmt.Errorf("empty the stream: %w", err)
	}
	return nil
}
