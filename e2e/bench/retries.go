package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	eventingv1alpha2 "github.com/rouse-run/rouse/api/eventing/v1alpha2"
	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/routing"
)

// benchRetries measures how late the retries of one Subscription come back: alone, while those of many others wait, a
// million by default, in ten namespaces, for up to an hour, and while a crowd of one of these namespaces asks to come
// back at one moment. Those of others that come back fail again.
func benchRetries(ctx context.Context, args []string) error {
	return rig.Run(ctx, "retries", args, measureRetries, map[string]rig.Role{"sink": failingSink})
}

func measureRetries(ctx context.Context, r *rig.Rig) error {
	count, seconds := rig.Setting("RETRIES", 1_000_000), rig.Setting("ROUND_SECONDS", 30)
	b, err := newRetriesBench(ctx, r, count)
	if err != nil {
		return err
	}
	begun := time.Now()
	alone, err := b.run(ctx, seconds)
	if err != nil {
		return err
	}
	fmt.Printf("events of one Subscription fail once and wait for %s, %d in a second for %d s\n", delay, perSecond, seconds)
	fmt.Printf("%9s %8s %12s %12s %12s %10s %9s\n",
		"waiting", "events", "p50 ms late", "p99 ms late", "most ms late", "bridge MiB", "NATS MiB")
	if err := b.show(0, alone); err != nil {
		return err
	}
	h, err := b.holdUp(ctx, count)
	if err != nil {
		return err
	}
	defer h.stop()
	fmt.Printf("stored %d retries of others after %s\n", count, time.Since(begun).Round(time.Second))
	among, err := b.run(ctx, seconds)
	if err != nil {
		return err
	}
	waiting, err := h.waiting(ctx)
	if err != nil {
		return err
	}
	if err := b.show(waiting, among); err != nil {
		return err
	}
	if err := h.gather(ctx, b); err != nil {
		return err
	}
	crowded, err := b.run(ctx, seconds)
	if err != nil {
		return err
	}
	if err := b.show(waiting+crowd, crowded); err != nil {
		return err
	}
	rss, err := b.bridge.PeakRSS()
	if err != nil {
		return err
	}
	fmt.Printf("retries waiting=%d due_late_p99_ms=%.1f rss_mib=%d\n", waiting, among.P99, rss)
	return nil
}

const (
	// delay of the one Subscription is the sum of four levels, and a rest that a bridge waits for.
	delay          = 2900 * time.Millisecond
	perSecond      = 100
	retriesTimeout = time.Minute

	retriesAckWait = 30 * time.Second
	// bytesPerRetry makes the stream large enough for twice as many.
	bytesPerRetry = 4 << 10
)

// retriesBench is a server, a bridge for one Subscription with its sink, and those whose retries wait.
type retriesBench struct {
	conn   *broker.Conn
	nats   *rig.Process
	bridge *rig.Process
	sink   string
	others []routing.Route
	next   int
}

func newRetriesBench(ctx context.Context, r *rig.Rig, count int) (*retriesBench, error) {
	server, err := r.StartNATS(rig.NATS{Name: natsName})
	if err != nil {
		return nil, err
	}
	sink, err := r.Start("sink")
	if err != nil {
		return nil, err
	}
	b := &retriesBench{nats: server, sink: sink.Where, others: otherRetries()}
	if b.conn, err = rig.Connect(ctx, server.Where); err != nil {
		return nil, err
	}
	one := rig.Route(benchName, "one", benchName, "one.v1", eventingv1alpha2.DefaultMaxInFlight)
	one.Delivery.Backoff = routing.Backoff{Policy: eventingv1alpha2.BackoffConstant, Delay: delay, MaxDelay: delay}
	streams := broker.DefaultStreamOptions()
	streams.RetryMaxBytes = max(streams.RetryMaxBytes, int64(count)*bytesPerRetry)
	fixture := rig.Fixture{NATS: server.Where, Routes: append(b.others, one)}
	if err := fixture.Prepare(ctx, b.conn, streams, retriesAckWait); err != nil {
		return nil, err
	}
	fixture.Routes = []routing.Route{one}
	fixture.Endpoints = map[string][]string{one.Service.String(): {strings.TrimPrefix(sink.Where, "http://")}}
	b.bridge, err = r.StartBridge(fixture, 0)
	return b, err
}

// run publishes for the one Subscription and asks the sink how late the second attempts came.
func (b *retriesBench) run(ctx context.Context, seconds int) (s seenRetries, err error) {
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
		if err := publisher.Publish(ctx, &cloudevent.Event{ID: strconv.Itoa(b.next), Source: benchName, Type: "one.v1"}); err != nil {
			return s, err
		}
	}
	for deadline := time.Now().Add(retriesTimeout); s.Events < events; time.Sleep(100 * time.Millisecond) {
		if err := rig.GetJSON(ctx, b.sink+"/seen", &s); err != nil {
			return s, err
		}
		if time.Now().After(deadline) {
			return s, fmt.Errorf("the sink has %d of %d after %s", s.Events, events, retriesTimeout)
		}
	}
	return s, nil
}

func (b *retriesBench) show(waiting uint64, s seenRetries) error {
	bridge, err := b.bridge.RSS()
	server, otherErr := b.nats.RSS()
	fmt.Printf("%9d %8d %12.1f %12.1f %12.1f %10d %9d\n", waiting, s.Events, s.P50, s.P99, s.Most, bridge, server)
	return errors.Join(err, otherErr)
}

// seenRetries has the lateness of second attempts since the sink was reset, in milliseconds.
type seenRetries struct {
	Events         int
	P50, P99, Most float64
}

// attempts are those of events that fail once.
type attempts struct {
	mu     sync.Mutex
	failed map[string]time.Time
	late   []time.Duration
}

// ServeHTTP fails the first attempt. A Retry-After beyond the longest delay has the event wait for exactly that.
func (a *attempts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	id := r.Header.Get("Ce-Id")
	a.mu.Lock()
	defer a.mu.Unlock()
	if failed, again := a.failed[id]; again {
		a.late = append(a.late, now.Sub(failed.Add(delay)))
		delete(a.failed, id)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	a.failed[id] = now
	w.Header().Set("Retry-After", "60")
	w.WriteHeader(http.StatusInternalServerError)
}

func (a *attempts) reset(http.ResponseWriter, *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failed, a.late = map[string]time.Time{}, nil
}

func (a *attempts) seen(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.late) == 0 {
		rig.WriteJSON(w, seenRetries{})
		return
	}
	rig.WriteJSON(w, seenRetries{
		Events: len(a.late), P50: rig.Milliseconds(a.late, 50), P99: rig.Milliseconds(a.late, 99), Most: rig.Milliseconds(a.late, 100),
	})
}

func failingSink(ctx context.Context, ready func(string), _ []string) error {
	a := &attempts{failed: map[string]time.Time{}}
	mux := http.NewServeMux()
	mux.Handle("POST /", a)
	mux.HandleFunc("GET /reset", a.reset)
	mux.HandleFunc("GET /seen", a.seen)
	return rig.Serve(ctx, 0, ready, mux)
}
