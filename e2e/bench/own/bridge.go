package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
)

const (
	stream    = "own"
	subject   = "own.events"
	ackWait   = 30 * time.Second
	stallWait = time.Minute
)

// server is the nats-server with a stream of events that every consumer is sent, and a connection of each kind.
type server struct {
	url       string
	conn      *broker.Conn
	raw       *nats.Conn
	js        jetstream.JetStream
	stream    jetstream.Stream
	consumers int
}

// startServer starts one, and stores events.
func startServer(ctx context.Context, r *rig.Rig, events int) (*server, error) {
	// The disk would decide how fast events are stored, and has no part in what is compared.
	process, err := r.StartNATS(rig.NATS{Name: "nats", Sync: "2m"})
	if err != nil {
		return nil, err
	}
	s, err := newServer(ctx, process.Where)
	if err != nil {
		return nil, err
	}
	if err := s.publish(ctx, subject, events, math.MaxInt32); err != nil {
		s.close(ctx)
		return nil, err
	}
	return s, nil
}

func newServer(ctx context.Context, url string) (*server, error) {
	conn, err := rig.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	raw, err := nats.Connect(url)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	js, err := jetstream.New(raw, jetstream.WithPublishAsyncMaxPending(4096))
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	made, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{subject}, Storage: jetstream.MemoryStorage})
	if err != nil {
		return nil, fmt.Errorf("make the stream: %w", err)
	}
	return &server{url: url, conn: conn, raw: raw, js: js, stream: made}, nil
}

func (s *server) close(ctx context.Context) {
	s.raw.Close()
	_ = s.conn.Close(ctx)
}

// consumer makes a new one, which is sent all that is in the stream.
func (s *server) consumer(ctx context.Context) (jetstream.Consumer, error) {
	s.consumers++
	made, err := s.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "round" + strconv.Itoa(s.consumers), AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: inFlight,
	})
	if err != nil {
		return nil, fmt.Errorf("make a consumer: %w", err)
	}
	return made, nil
}

// publish stores events, at a rate or as fast as that goes.
func (s *server) publish(ctx context.Context, subject string, events, rate int) error {
	header := nats.Header{
		"ce-specversion": {"1.0"}, "ce-id": {"b6dd2c9e-4e9e-4f4a-8f47-2d1e4a7c2e39"}, "ce-source": {"shop"}, "ce-type": {subject},
		"Content-Type": {"application/json"},
	}
	body := stored()
	err := pace(ctx, events, rate, func() error {
		_, err := s.js.PublishMsgAsync(&nats.Msg{Subject: subject, Header: header, Data: body}, jetstream.WithStallWait(stallWait))
		return err
	})
	if err != nil {
		return fmt.Errorf("store an event: %w", err)
	}
	select {
	case <-s.js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

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
