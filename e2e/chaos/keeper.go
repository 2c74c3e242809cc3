package main

import (
	"context"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
)

const (
	keeperRetry    = 250 * time.Millisecond
	keeperInterval = 5 * time.Second // for deletions without an advisory, while a server was away
)

// keep makes deleted streams and consumers again, as the controller does: at once after a server's advisory, and at regular
// intervals.
func (s *stage) keep(ctx context.Context) error {
	conn, err := rig.Connect(ctx, s.fixture.NATS)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	deleted := make(chan struct{}, 1)
	stop, err := conn.OnDeleted([]string{broker.DefaultStream, broker.RetryStream, broker.DeadLetterStream}, func(string, string) {
		select {
		case deleted <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	for ctx.Err() == nil {
		wait := keeperInterval
		if s.fixture.Prepare(ctx, conn, s.streams(), ackWait) != nil { // a server is away
			wait = keeperRetry
		}
		select {
		case <-deleted:
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
	return nil
}

func (s *stage) streams() broker.StreamOptions {
	streams := broker.DefaultStreamOptions()
	streams.Replicas = servers
	return streams
}
