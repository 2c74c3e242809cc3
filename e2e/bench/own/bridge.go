package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
)

// bridge is a process that delivers to the sink what is published for one Subscription.
type bridge struct {
	process *rig.Process
	server  *server
	subject string
	micros  []float64 // of CPU for an event, for each round
}

func newBridge(ctx context.Context, r *rig.Rig, s *server, sink string) (*bridge, error) {
	route := rig.Route("bench", "function", "shop", "order.received.v1", inFlight)
	fixture := rig.Fixture{NATS: s.url, Endpoints: map[string][]string{route.Service.String(): {strings.TrimPrefix(sink, "http://")}}}
	fixture.Routes = append(fixture.Routes, route)
	if err := fixture.Prepare(ctx, s.conn, broker.DefaultStreamOptions(), ackWait); err != nil {
		return nil, err
	}
	process, err := r.StartBridge(fixture, 0)
	if err != nil {
		return nil, err
	}
	return &bridge{process: process, server: s, subject: route.Subjects[0]}, nil
}

// deliver publishes events at the rate, and notes what one takes of the bridge.
func (b *bridge) deliver(ctx context.Context, events int) error {
	used, err := b.process.CPU()
	if err != nil {
		return err
	}
	if err := b.server.publish(ctx, b.subject, events, perSecond); err != nil {
		return err
	}
	time.Sleep(time.Second / 2) // it keeps up, so that few are left
	now, err := b.process.CPU()
	if err != nil {
		return fmt.Errorf("measure the bridge: %w", err)
	}
	b.micros = append(b.micros, float64((now-used).Microseconds())/float64(events))
	return nil
}
