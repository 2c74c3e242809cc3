package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
)

// benchDispatch measures how fast a bridge delivers stored events, beside the simplest loop that can do it: pull, POST
// the bytes, ack. Both have the same server, the same sink and the same limit of deliveries in flight.
func benchDispatch(ctx context.Context, args []string) error {
	return rig.Run(ctx, "dispatch", args, measureDispatch, map[string]rig.Role{"sink": countingSink, "bare": bareDeliver})
}

// restTime is how long a dispatcher has had no event when its memory is read: Go gives back what it does not need by then.
const restTime = 10 * time.Second

// dispatchFigures are those of one kind of dispatcher with one limit.
type dispatchFigures struct {
	perSecond []float64
	cpuMicros []float64
	rss       int // at most
	rest      int // a while after the last event
}

func measureDispatch(ctx context.Context, r *rig.Rig) error {
	events, rounds := rig.Setting("EVENTS", 100_000), rig.Setting("ROUNDS", 3)
	b, err := newDispatchBench(ctx, r, events)
	if err != nil {
		return err
	}
	defer b.close(ctx)
	fmt.Printf("%d stored events of 1 KiB, to a sink that answers 204, %d rounds\n", events, rounds)
	fmt.Printf("%-6s %9s  %-7s %10s %14s %9s\n", "round", "in flight", "who", "events/s", "CPU us/event", "RSS MiB")
	ours, bare := map[int]*dispatchFigures{10: {}, 100: {}}, map[int]*dispatchFigures{10: {}, 100: {}}
	for round := range rounds {
		for _, limit := range []int{10, 100} {
			runs := []func() error{
				func() error { return b.run(ctx, round, limit, "bridge", b.startBridge, ours[limit]) },
				func() error { return b.run(ctx, round, limit, "bare", b.startBare, bare[limit]) },
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
	fmt.Printf("at rest with a full journal: %d MiB; the bare loop: %d MiB\n", ours[100].rest, bare[100].rest)
	fmt.Printf("dispatch ratio_10=%.2f ratio_100=%.2f events_per_s=%.0f cpu_us_per_event=%.0f rss_mib=%d\n",
		dispatchRatio(ours[10], bare[10]), dispatchRatio(ours[100], bare[100]), rig.Median(ours[100].perSecond),
		rig.Median(ours[100].cpuMicros), max(ours[10].rss, ours[100].rss))
	return nil
}

func dispatchRatio(ours, bare *dispatchFigures) float64 {
	return rig.Median(ours.perSecond) / rig.Median(bare.perSecond)
}

// starter stores the events and starts a dispatcher, which has so many deliveries in flight.
type starter func(ctx context.Context, limit int) (*rig.Process, error)

// run lets one dispatcher deliver everything, from its start to the last event.
func (b *dispatchBench) run(ctx context.Context, round, limit int, who string, start starter, f *dispatchFigures) error {
	p, err := start(ctx, limit)
	if err != nil {
		return err
	}
	defer func() { _ = p.Stop() }()
	if err := b.await(ctx, 1); err != nil {
		return err
	}
	begun, atBegin, err := b.mark(ctx, p)
	if err != nil {
		return err
	}
	if err := b.await(ctx, b.events); err != nil {
		return err
	}
	took := time.Since(begun)
	cpu, err := p.CPU()
	if err != nil {
		return err
	}
	rss, err := p.PeakRSS()
	if err != nil {
		return err
	}
	if f.rest, err = b.atRest(ctx, p); err != nil {
		return err
	}
	perSecond := float64(b.events) / took.Seconds()
	cpuMicros := float64((cpu - atBegin).Microseconds()) / float64(b.events)
	f.perSecond, f.cpuMicros, f.rss = append(f.perSecond, perSecond), append(f.cpuMicros, cpuMicros), max(f.rss, rss)
	fmt.Printf("%-6d %9d  %-7s %10.0f %14.1f %9d\n", round+1, limit, who, perSecond, cpuMicros, rss)
	return nil
}

// atRest is the memory that a dispatcher keeps, with what it remembers.
func (b *dispatchBench) atRest(ctx context.Context, p *rig.Process) (int, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(restTime):
		return p.RSS()
	}
}

// mark is the moment from which time and CPU count.
func (b *dispatchBench) mark(_ context.Context, p *rig.Process) (time.Time, time.Duration, error) {
	cpu, err := p.CPU()
	return time.Now(), cpu, err
}

const (
	dispatchAckWait = 30 * time.Second
	dispatchTimeout = 5 * time.Minute
	storedSize      = 1024 // bytes of an event's data
)

// dispatchBench is the server, the sink and the state that all runs share.
type dispatchBench struct {
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

func newDispatchBench(ctx context.Context, r *rig.Rig, events int) (*dispatchBench, error) {
	server, err := r.StartNATS(rig.NATS{Name: natsName})
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
	return &dispatchBench{rig: r, nats: server.Where, sink: sink.Where, events: events, conn: conn, raw: raw, js: js}, nil
}

func (b *dispatchBench) close(ctx context.Context) {
	b.raw.Close()
	_ = b.conn.Close(ctx)
}

// prepare stores the events for a new consumer, which hands out so many of them before the first is settled.
func (b *dispatchBench) prepare(ctx context.Context, unsettled int) error {
	for _, old := range b.fixture.Routes {
		if err := b.conn.DeleteConsumer(ctx, broker.DefaultStream, old.Consumer); err != nil {
			return err
		}
	}
	b.runs++
	route := rig.Route(benchName, "run"+strconv.Itoa(b.runs), benchName, "measured.v1", unsettled)
	b.fixture = rig.Fixture{NATS: b.nats, Endpoints: map[string][]string{
		route.Service.String(): {strings.TrimPrefix(b.sink, "http://")},
	}}
	b.fixture.Routes = append(b.fixture.Routes, route)
	streams := broker.DefaultStreamOptions()
	if err := b.fixture.Prepare(ctx, b.conn, streams, dispatchAckWait); err != nil {
		return err
	}
	if err := b.store(ctx, route.Subjects[0]); err != nil {
		return err
	}
	return rig.GetJSON(ctx, b.sink+"/reset", nil)
}

// store publishes the events as the eventbridge would have.
func (b *dispatchBench) store(ctx context.Context, subject string) error {
	filler := strings.Repeat("x", storedSize-len(`{"text":""}`))
	for i := range b.events {
		id := fmt.Sprintf("%d-%d", b.runs, i)
		body := fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"bench","type":%q,"datacontenttype":"application/json",`+
			`"time":"2026-01-01T00:00:00Z","originaltype":"measured.v1","data":{"text":%q}}`, id, subject, filler)
		if _, err := b.js.PublishMsgAsync(&nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{
			"ce-specversion": {"1.0"}, "ce-id": {id}, "ce-source": {benchName}, "ce-type": {subject}, "Content-Type": {"application/json"},
		}}, jetstream.WithStallWait(dispatchTimeout)); err != nil { // the disk is slower than we are
			return fmt.Errorf("store an event: %w", err)
		}
	}
	select {
	case <-b.js.PublishAsyncComplete():
		return nil
	case <-time.After(dispatchTimeout):
		return fmt.Errorf("%d events are not stored after %s", b.js.PublishAsyncPending(), dispatchTimeout)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *dispatchBench) startBridge(ctx context.Context, limit int) (*rig.Process, error) {
	if err := b.prepare(ctx, limit); err != nil {
		return nil, err
	}
	return b.rig.StartBridge(b.fixture, 0)
}

func (b *dispatchBench) startBare(ctx context.Context, limit int) (*rig.Process, error) {
	if err := b.prepare(ctx, barePrefetch); err != nil {
		return nil, err
	}
	return b.rig.Start("bare", b.nats, b.fixture.Routes[0].Consumer, b.sink, strconv.Itoa(limit))
}

// await returns when the sink has had so many events.
func (b *dispatchBench) await(ctx context.Context, count int) error {
	for deadline := time.Now().Add(dispatchTimeout); time.Now().Before(deadline) && ctx.Err() == nil; {
		var had int
		if err := rig.GetJSON(ctx, b.sink+"/count", &had); err != nil || had >= count {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return fmt.Errorf("the sink has not had %d events after %s", count, dispatchTimeout)
}

// countingSink answers 204 to every event and counts.
func countingSink(ctx context.Context, ready func(string), _ []string) error {
	var count atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		count.Add(1)
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /count", func(w http.ResponseWriter, _ *http.Request) { rig.WriteJSON(w, count.Load()) })
	mux.HandleFunc("GET /reset", func(http.ResponseWriter, *http.Request) { count.Store(0) })
	return rig.Serve(ctx, 0, ready, mux)
}
