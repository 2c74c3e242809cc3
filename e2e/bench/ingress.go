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
// publish it, answer when the stream has confirmed. Both have the same server and the same publisher.
func benchIngress(ctx context.Context, args []string) error {
	return rig.Run(ctx, "ingress", args, measureIngress, map[string]rig.Role{"bare": bareIngress, "load": loadRole})
}

// ingressFigures are those of one kind of ingress with one number of connections.
type ingressFigures struct{ perSecond, p99 []float64 }

func (f *ingressFigures) add(result loadResult) {
	f.perSecond, f.p99 = append(f.perSecond, result.PerSecond), append(f.p99, result.P99)
}

func measureIngress(ctx context.Context, r *rig.Rig) error {
	rounds, seconds := rig.Setting("ROUNDS", 3), rig.Setting("ROUND_SECONDS", 8)
	b, err := newIngressBench(ctx, r)
	if err != nil {
		return err
	}
	defer b.conn.Close()
	b.duration = time.Duration(seconds) * time.Second
	fmt.Printf("binary events of 1 KiB, %d s each, %d rounds\n", seconds, rounds)
	fmt.Printf("%-6s %11s  %-7s %10s %9s %9s\n", "round", "connections", "who", "requests/s", "p50 ms", "p99 ms")
	ours, theirs := map[int]*ingressFigures{32: {}, 128: {}}, map[int]*ingressFigures{32: {}, 128: {}}
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
		ingressRatio(ours[32], theirs[32]), ingressRatio(ours[128], theirs[128]),
		rig.Median(ours[128].perSecond), rig.Median(ours[128].p99))
	return nil
}

func ingressRatio(ours, theirs *ingressFigures) float64 {
	return rig.Median(ours.perSecond) / rig.Median(theirs.perSecond)
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
	fmt.Printf("%-6d %11d  %-7s %10.0f %9.2f %9.2f\n", round+1, connections, who, result.PerSecond, result.P50, result.P99)
	return nil
}

// ingressBench is a server, both kinds of ingress and their publisher.
type ingressBench struct {
	process            *rig.Process // of the bridge
	bridge, bare, load string
	conn               *nats.Conn
	stream             jetstream.Stream
	duration           time.Duration // of a measurement
}

func newIngressBench(ctx context.Context, r *rig.Rig) (*ingressBench, error) {
	server, err := r.StartNATS(rig.NATS{Name: natsName})
	if err != nil {
		return nil, err
	}
	// A Subscription whose sink sleeps: without one the stream would keep nothing.
	fixture := rig.Fixture{NATS: server.Where}
	asleep := rig.Route("bench", "asleep", "bench", ingressType, 10)
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
	load, err := r.Start("load")
	if err != nil {
		return nil, err
	}
	return &ingressBench{process: bridge, bridge: bridge.Address(rig.Public), bare: bare.Where, load: load.Where, conn: conn, stream: stream}, nil
}

func (b *ingressBench) empty(ctx context.Context) error {
	if err := b.stream.Purge(ctx); err != nil {
		return fmt.Errorf("empty the stream: %w", err)
	}
	return nil
}
