package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// delay of the one Subscription is the sum of four levels, and a rest that a bridge waits for.
	delay     = 2900 * time.Millisecond
	perSecond = 100
	timeout   = time.Minute

	ackWait = 30 * time.Second
	// bytesPerRetry makes the stream large enough for twice as many.
	bytesPerRetry = 4 << 10
)

// bench is a server, a bridge for one Subscription with its sink, and those whose retries wait.
type bench struct {
	conn   *broker.Conn
	nats   *rig.Process
	bridge *rig.Process
	sink   string
	others []routing.Route
	next   int
}

func newBench(ctx context.Context, r *rig.Rig, count int) (*bench, error) {
	server, err := r.StartNATS(rig.NATS{Name: "nats"})
	if err != nil {
		return nil, err
	}
	sink, err := r.Start("sink")
	if err != nil {
		return nil, err
	}
	b := &bench{nats: server, sink: sink.Where, others: hostile()}
	if b.conn, err = rig.Connect(ctx, server.Where); err != nil {
		return nil, err
	}
	one := rig.Route("bench", "one", "bench", "one.v1", eventingv1alpha2.DefaultMaxInFlight)
	one.Delivery.Backoff = routing.Backoff{Policy: eventingv1alpha2.BackoffConstant, Delay: delay, MaxDelay: delay}
	streams := broker.DefaultStreamOptions()
	streams.RetryMaxBytes = max(streams.RetryMaxBytes, int64(count)*bytesPerRetry)
	fixture := rig.Fixture{NATS: server.Where, Routes: append(b.others, one)}
	if err := fixture.Prepare(ctx, b.conn, streams, ackWait); err != nil {
		return nil, err
	}
	fixture.Routes = []routing.Route{one}
	fixture.Endpoints = map[string][]string{one.Service.String(): {strings.TrimPrefix(sink.Where, "http://")}}
	b.bridge, err = r.StartBridge(fixture, 0)
	return b, err
}

// run publishes for the one Subscription and asks the sink how late the second attempts came.
func (b *bench) run(ctx context.Context, seconds int) (s seen, err error) {
	if err := rig.GetJSON(ctx, b.sink+"/reset", nil); err != nil {
		return s, err
	}
	publisher := broker.NewPublisher(b.conn, broker.DefaultPublisherOptions())
	ticks := time.NewTicker(time.Second / perSecond)
	defer ticks.Stop()
	events := perSecond * seconds
	for range events {
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-ticks.C:
		}
		b.next++
		if err := publisher.Publish(ctx, &cloudevent.Event{ID: strconv.Itoa(b.next), Source: "bench", Type: "one.v1"}); err != nil {
			return s, err
		}
	}
	for deadline := time.Now().Add(timeout); s.Events < events; time.Sleep(100 * time.Millisecond) {
		if err := rig.GetJSON(ctx, b.sink+"/seen", &s); err != nil {
			return s, err
		}
		if time.Now().After(deadline) {
			return s, fmt.Errorf("the sink has %d of %d after %s", s.Events, events, timeout)
		}
	}
	return s, nil
}

func (b *bench) show(waiting uint64, s seen) error {
	bridge, err := b.bridge.RSS()
	server, otherErr := b.nats.RSS()
	fmt.Printf("%9d %8d %12.1f %12.1f %12.1f %10d %9d\n", waiting, s.Events, s.P50, s.P99, s.Most, bridge, server)
	return errors.Join(err, otherErr)
}
