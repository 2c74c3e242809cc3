package main

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
)

// bench is a server, both kinds of ingress and their publisher.
type bench struct {
	process            *rig.Process // of the bridge
	bridge, bare, load string
	conn               *nats.Conn
	stream             jetstream.Stream
	duration           time.Duration // of a measurement
}

func newBench(ctx context.Context, r *rig.Rig) (*bench, error) {
	server, err := r.StartNATS(rig.NATS{Name: "nats"})
	if err != nil {
		return nil, err
	}
	// A Subscription whose sink sleeps: without one the stream would keep nothing.
	fixture := rig.Fixture{NATS: server.Where}
	asleep := rig.Route("bench", "asleep", "bench", eventType, 10)
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
	return &bench{process: bridge, bridge: bridge.Address(rig.Public), bare: bare.Where, load: load.Where, conn: conn, stream: stream}, nil
}

func (b *bench) empty(ctx context.Context) error {
	if err := b.stream.Purge(ctx); err != nil {
		return fmt.Errorf("empty the stream: %w", err)
	}
	return nil
}
