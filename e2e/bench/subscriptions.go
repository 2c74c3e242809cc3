package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

// benchSubscriptions measures a bridge that serves very many Subscriptions: how long it takes to start, its memory and
// goroutines and what it asks of NATS, while all are idle and while one in a hundred is active. It does so once with sinks
// that are ready and once with sinks that sleep, as those of most Functions do.
func benchSubscriptions(ctx context.Context, args []string) error {
	return rig.Run(ctx, "subscriptions", args, measureSubscriptions, map[string]rig.Role{"sink": subscriptionsSink})
}

// subscriptionsFigures are those of one way to start the bridge.
type subscriptionsFigures struct {
	start float64 // seconds
	rss   int     // MiB
}

func measureSubscriptions(ctx context.Context, r *rig.Rig) error {
	count, seconds := rig.Setting("SUBSCRIPTIONS", 10_000), rig.Setting("ROUND_SECONDS", 30) // as long as a pull request stands
	b, err := newSubscriptionsBench(ctx, r, count)
	if err != nil {
		return err
	}
	defer b.close(ctx)
	fmt.Printf("%d Subscriptions on one bridge, one in %d of them active, %d s each\n", count, count/len(b.active), seconds)
	fmt.Printf("%-14s %-7s %9s %9s %11s %12s %11s %7s\n",
		"sinks", "state", "start s", "RSS MiB", "goroutines", "NATS calls/s", "events/s", "CPU %")
	worst := subscriptionsFigures{}
	for _, asleep := range []bool{false, true} {
		f, err := b.run(ctx, asleep, seconds)
		if err != nil {
			return err
		}
		worst = subscriptionsFigures{start: max(worst.start, f.start), rss: max(worst.rss, f.rss)}
	}
	fmt.Printf("subscriptions n=%d rss_mib=%d start_s=%.1f\n", count, worst.rss, worst.start)
	return nil
}

const (
	oneIn                 = 100 // Subscriptions is active
	subscriptionsInFlight = 10
	subscriptionsAckWait  = 30 * time.Second
	makers                = 8
	subscriptionsTimeout  = 5 * time.Minute
)

// subscriptionsBench is a server, a sink for all Subscriptions, and a count of the server's API calls.
type subscriptionsBench struct {
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

func newSubscriptionsBench(ctx context.Context, r *rig.Rig, count int) (*subscriptionsBench, error) {
	server, err := r.StartNATS(rig.NATS{Name: natsName})
	if err != nil {
		return nil, err
	}
	sink, err := r.Start("sink")
	if err != nil {
		return nil, err
	}
	b := &subscriptionsBench{rig: r, nats: server.Where, sink: sink.Where}
	for i := range count {
		route := rig.Route(benchName, "s"+strconv.Itoa(i), benchName, "type"+strconv.Itoa(i), subscriptionsInFlight)
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

func (b *subscriptionsBench) close(context.Context) { b.conn.Close() }

// prepare makes the consumers, some at a time: the controller's part, which is not measured.
func (b *subscriptionsBench) prepare(ctx context.Context) error {
	streams := broker.DefaultStreamOptions()
	if err := (rig.Fixture{NATS: b.nats}).PrepareAlone(ctx, streams, subscriptionsAckWait); err != nil {
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
				Name: route.Consumer, Subjects: route.Subjects, MaxAckPending: route.MaxInFlight, AckWait: subscriptionsAckWait,
			})
		})
	}
	return errors.Join(group.Wait(), conn.Close(ctx))
}

// fixture is what the bridge sees: all sinks are ready, or only those of active Subscriptions.
func (b *subscriptionsBench) fixture(asleep bool) rig.Fixture {
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
func (b *subscriptionsBench) publish(ctx context.Context) error {
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
	ctx, cancel := context.WithTimeout(ctx, subscriptionsTimeout)
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
func (b *subscriptionsBench) await(ctx context.Context, subscriptions int) error {
	var s seenSubscriptions
	for deadline := time.Now().Add(subscriptionsTimeout); time.Now().Before(deadline) && ctx.Err() == nil; {
		if err := rig.GetJSON(ctx, b.sink+"/seen", &s); err != nil || s.Subscriptions >= subscriptions {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("events of %d of %d Subscriptions have come after %s", s.Subscriptions, subscriptions, subscriptionsTimeout)
}

// run starts a bridge for events that wait, and measures it while it idles and while it works.
func (b *subscriptionsBench) run(ctx context.Context, asleep bool, seconds int) (f subscriptionsFigures, err error) {
	sinks := "ready"
	if asleep {
		sinks = "99 % asleep"
	}
	if err := errors.Join(rig.GetJSON(ctx, b.sink+"/reset", nil), b.publish(ctx)); err != nil {
		return f, err
	}
	begun := time.Now()
	p, err := b.rig.StartBridge(b.fixture(asleep), 0)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	if err := b.await(ctx, len(b.active)); err != nil {
		return f, err
	}
	f.start = time.Since(begun).Seconds()
	for _, state := range []string{"idle", "active"} {
		if err := b.observe(ctx, p, state == "active", seconds, func(l sample) {
			fmt.Printf("%-14s %-7s %9.1f %9d %11d %12.0f %11.0f %7.1f\n",
				sinks, state, f.start, l.rss, l.goroutines, l.calls, l.events, l.cpu)
		}); err != nil {
			return f, err
		}
	}
	f.rss, err = p.PeakRSS()
	return f, err
}

// sample is one measurement of a bridge, per second where that has a meaning.
type sample struct {
	rss, goroutines    int
	calls, events, cpu float64
}

func (b *subscriptionsBench) observe(ctx context.Context, p *rig.Process, active bool, seconds int, show func(sample)) error {
	cpu, err := p.CPU()
	if err != nil {
		return err
	}
	var before, after seenSubscriptions
	if err := rig.GetJSON(ctx, b.sink+"/seen", &before); err != nil {
		return err
	}
	begun, calls := time.Now(), b.calls.Load()
	for second := range seconds {
		if active {
			if err := b.publish(ctx); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Until(begun.Add(time.Duration(second+1) * time.Second))):
		}
	}
	took := time.Since(begun).Seconds()
	used, err := p.CPU()
	if err != nil {
		return err
	}
	if err := rig.GetJSON(ctx, b.sink+"/seen", &after); err != nil {
		return err
	}
	l := sample{
		calls: float64(b.calls.Load()-calls) / took, events: float64(after.Events-before.Events) / took,
		cpu: (used - cpu).Seconds() / took * 100,
	}
	if l.rss, err = p.RSS(); err != nil {
		return err
	}
	if l.goroutines, err = goroutines(ctx, p); err != nil {
		return err
	}
	show(l)
	return nil
}

// goroutines asks the metrics.
func goroutines(ctx context.Context, p *rig.Process) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.Address(rig.Metrics)+"/metrics", http.NoBody)
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "go_goroutines "); ok {
			return strconv.Atoi(value)
		}
	}
	return 0, errors.New("read metrics: there is no go_goroutines")
}

// seenSubscriptions counts what the sink of all Subscriptions has received since it was reset.
type seenSubscriptions struct{ Events, Subscriptions int }

// subscriptionsSink answers 204. The Subscriptions differ by the host that they name.
func subscriptionsSink(ctx context.Context, ready func(string), _ []string) error {
	var mu sync.Mutex
	events, hosts := 0, map[string]bool{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		mu.Lock()
		events++
		hosts[r.Host] = true
		mu.Unlock()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /reset", func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		events, hosts = 0, map[string]bool{}
	})
	mux.HandleFunc("GET /seen", func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		rig.WriteJSON(w, seenSubscriptions{events, len(hosts)})
	})
	return rig.Serve(ctx, 0, ready, mux)
}
