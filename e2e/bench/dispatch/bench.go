package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/e2e/bench/bare"
	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
)

const (
	ackWait = 30 * time.Second
	timeout = 5 * time.Minute
	size    = 1024 // bytes of an event's data
)

// bench is the server, the sink and the state that all runs share.
type bench struct {
	rig     *rig.Rig
	fixture rig.Fixture
	nats    string
	sink    string
	events  int
	conn    *broker.Conn
	raw     *nats.Conn
	js      jetstream.JetStream
	runs    int
}

func newBench(ctx context.Context, r *rig.Rig, events int) (*bench, error) {
	server, err := r.StartNATS(rig.NATS{Name: "nats"})
	if err != nil {
		return nil, err
	}
	sink, err := r.Start("sink")
	if err != nil {
		return nil, err
	}
	conn, err := rig.Connect(ctx, server.Where)
	if err != nil {
		return nil, err
	}
	raw, err := nats.Connect(server.Where)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	js, err := jetstream.New(raw, jetstream.WithPublishAsyncMaxPending(4096))
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &bench{rig: r, nats: server.Where, sink: sink.Where, events: events, conn: conn, raw: raw, js: js}, nil
}

func (b *bench) close(ctx context.Context) {
	b.raw.Close()
	_ = b.conn.Close(ctx)
}

// prepare stores the events for a new consumer, which hands out so many of them before the first is settled.
func (b *bench) prepare(ctx context.Context, unsettled int) error {
	for _, old := range b.fixture.Routes {
		if err := b.conn.DeleteConsumer(ctx, broker.DefaultStream, old.Consumer); err != nil {
			return err
		}
	}
	b.runs++
	route := rig.Route("bench", "run"+strconv.Itoa(b.runs), "bench", "measured.v1", unsettled)
	b.fixture = rig.Fixture{NATS: b.nats, Endpoints: map[string][]string{
		route.Service.String(): {strings.TrimPrefix(b.sink, "http://")},
	}}
	b.fixture.Routes = append(b.fixture.Routes, route)
	streams := broker.DefaultStreamOptions()
	if err := b.fixture.Prepare(ctx, b.conn, streams, ackWait); err != nil {
		return err
	}
	if err := b.store(ctx, route.Subjects[0]); err != nil {
		return err
	}
	return rig.GetJSON(ctx, b.sink+"/reset", nil)
}

// store publishes the events as the eventbridge would have.
func (b *bench) store(ctx context.Context, subject string) error {
	filler := strings.Repeat("x", size-len(`{"text":""}`))
	for i := range b.events {
		id := fmt.Sprintf("%d-%d", b.runs, i)
		body := fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"bench","type":%q,"datacontenttype":"application/json",`+
			`"time":"2026-01-01T00:00:00Z","originaltype":"measured.v1","data":{"text":%q}}`, id, subject, filler)
		if _, err := b.js.PublishMsgAsync(&nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{
			"ce-specversion": {"1.0"}, "ce-id": {id}, "ce-source": {"bench"}, "ce-type": {subject}, "Content-Type": {"application/json"},
		}}, jetstream.WithStallWait(timeout)); err != nil { // the disk is slower than we are
			return fmt.Errorf("store an event: %w", err)
		}
	}
	select {
	case <-b.js.PublishAsyncComplete():
		return nil
	case <-time.After(timeout):
		return fmt.Errorf("%d events are not stored after %s", b.js.PublishAsyncPending(), timeout)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *bench) startBridge(ctx context.Context, limit int) (*rig.Process, error) {
	if err := b.prepare(ctx, limit); err != nil {
		return nil, err
	}
	return b.rig.StartBridge(b.fixture, 0)
}

func (b *bench) startBare(ctx context.Context, limit int) (*rig.Process, error) {
	if err := b.prepare(ctx, bare.Prefetch); err != nil {
		return nil, err
	}
	return b.rig.Start("bare", b.nats, b.fixture.Routes[0].Consumer, b.sink, strconv.Itoa(limit))
}

// await returns when the sink has had so many events.
func (b *bench) await(ctx context.Context, count int) error {
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline) && ctx.Err() == nil; {
		var had int
		if err := rig.GetJSON(ctx, b.sink+"/count", &had); err != nil || had >= count {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("the sink has not had %d events after %s", count, timeout)
}
