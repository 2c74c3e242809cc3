package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

const (
	oneIn       = 100 // Subscriptions is active
	maxInFlight = 10
	ackWait     = 30 * time.Second
	makers      = 8
	timeout     = 5 * time.Minute
)

// bench is a server, a sink for all Subscriptions, and a count of the server's API calls.
type bench struct {
	rig    *rig.Rig
	routes []routing.Route
	active []routing.Route // spread over all
	nats   string
	sink   string
	conn   *nats.Conn
	js     jetstream.JetStream
	calls  atomic.Int64
	events int // published so far; they are numbered
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
	b := &bench{rig: r, nats: server.Where, sink: sink.Where}
	for i := range count {
		route := rig.Route("bench", "s"+strconv.Itoa(i), "bench", "type"+strconv.Itoa(i), maxInFlight)
		b.routes = append(b.routes, route)
		if i%oneIn == oneIn-1 || count < oneIn {
			b.active = append(b.active, route)
		}
	}
	if b.conn, err = nats.Connect(server.Where); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	if b.js, err = jetstream.New(b.conn); err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	begun := time.Now()
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	fmt.Printf("%d consumers are made after %.0f s\n", count, time.Since(begun).Seconds())
	if _, err := b.conn.Subscribe("$JS.API.>", func(*nats.Msg) { b.calls.Add(1) }); err != nil {
		return nil, fmt.Errorf("count calls: %w", err)
	}
	return b, nil
}

func (b *bench) close(context.Context) { b.conn.Close() }

// prepare makes the consumers, some at a time: the controller's part, which is not measured.
func (b *bench) prepare(ctx context.Context) error {
	streams := broker.DefaultStreamOptions()
	if err := (rig.Fixture{NATS: b.nats}).PrepareAlone(ctx, streams, ackWait); err != nil {
		return err
	}
	conn, err := rig.Connect(ctx, b.nats)
	if err != nil {
		return err
	}
	group, making := errgroup.WithContext(ctx)
	group.SetLimit(makers)
	for _, route := range b.routes {
		group.Go(func() error {
			return conn.EnsureConsumer(making, streams.Name, broker.Consumer{
				Name: route.Consumer, Subjects: route.Subjects, MaxAckPending: route.MaxInFlight, AckWait: ackWait,
			})
		})
	}
	return errors.Join(group.Wait(), conn.Close(ctx))
}

// fixture is what the bridge sees: all sinks are ready, or only those of active Subscriptions.
func (b *bench) fixture(asleep bool) rig.Fixture {
	w := rig.Fixture{NATS: b.nats, Routes: b.routes, Endpoints: map[string][]string{}}
	awake := b.routes
	if asleep {
		awake = b.active
	}
	for _, route := range awake {
		w.Endpoints[route.Service.String()] = []string{strings.TrimPrefix(b.sink, "http://")}
	}
	return w
}

// publish stores one event for each active Subscription. A server with so many consumers may take its time.
func (b *bench) publish(ctx context.Context) error {
	confirmations := make([]jetstream.PubAckFuture, 0, len(b.active))
	for _, route := range b.active {
		id := strconv.Itoa(b.events)
		b.events++
		confirmation, err := b.js.PublishMsgAsync(&nats.Msg{
			Subject: route.Subjects[0], Data: []byte(`{"specversion":"1.0","id":"` + id + `","source":"bench","type":"` + route.Subjects[0] + `"}`),
			Header: nats.Header{"Content-Type": {"application/cloudevents+json"}},
		})
		if err != nil {
			return fmt.Errorf("store an event: %w", err)
		}
		confirmations = append(confirmations, confirmation)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for _, confirmation := range confirmations {
		select {
		case <-confirmation.Ok():
		case err := <-confirmation.Err():
			return fmt.Errorf("store an event: %w", err)
		case <-ctx.Done():
			return fmt.Errorf("store an event: %w", ctx.Err())
		}
	}
	return nil
}

// await returns when the sink has had events of so many Subscriptions.
func (b *bench) await(ctx context.Context, subscriptions int) error {
	var s seen
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline) && ctx.Err() == nil; {
		if err := rig.GetJSON(ctx, b.sink+"/seen", &s); err != nil || s.Subscriptions >= subscriptions {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("events of %d of %d Subscriptions have come after %s", s.Subscriptions, subscriptions, timeout)
}
