package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
)

// benchLatency measures how long events take from their publisher to their sink through a bridge, beside the bare
// pair: the simplest handler that stores them and the simplest loop that delivers them. Events are published at a rate,
// and their time counts from the moment at which each one should have been sent.
func benchLatency(ctx context.Context, args []string) error {
	return rig.Run(ctx, "latency", args, measureLatency, map[string]rig.Role{
		"sink": agingSink, "ingress": bareIngress, "deliver": bareDeliver, "load": loadRole,
	})
}

// latencyFigures are those of one pair at one rate, in milliseconds.
type latencyFigures struct{ p50, p99 []float64 }

func measureLatency(ctx context.Context, r *rig.Rig) error {
	rounds, seconds := rig.Setting("ROUNDS", 3), rig.Setting("ROUND_SECONDS", 10)
	b, err := newLatencyBench(ctx, r)
	if err != nil {
		return err
	}
	fmt.Printf("events of 1 KiB from publisher to sink, %d s each, %d rounds\n", seconds, rounds)
	fmt.Printf("%-6s %9s  %-7s %9s %9s %9s %9s\n", "round", "events/s", "who", "events", "p50 ms", "p99 ms", "most ms")
	rates := []int{200, 2000}
	ours, theirs := map[int]*latencyFigures{}, map[int]*latencyFigures{}
	for _, rate := range rates {
		ours[rate], theirs[rate] = &latencyFigures{}, &latencyFigures{}
	}
	for round := range rounds {
		for _, rate := range rates {
			runs := []func() error{
				func() error { return b.run(ctx, round, rate, seconds, b.bridge, ours[rate]) },
				func() error { return b.run(ctx, round, rate, seconds, b.bare, theirs[rate]) },
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
	for _, rate := range rates {
		fmt.Printf("%d events/s: p50 %.2f ms, p99 %.2f ms; bare p50 %.2f ms, p99 %.2f ms\n", rate,
			rig.Median(ours[rate].p50), rig.Median(ours[rate].p99), rig.Median(theirs[rate].p50), rig.Median(theirs[rate].p99))
	}
	last := rates[len(rates)-1]
	fmt.Printf("latency p50_ms=%.2f p99_ms=%.2f bare_p50_ms=%.2f bare_p99_ms=%.2f\n",
		rig.Median(ours[last].p50), rig.Median(ours[last].p99), rig.Median(theirs[last].p50), rig.Median(theirs[last].p99))
	return nil
}

const (
	connections     = 64
	latencyInFlight = 100
	latencyWarmUp   = 2 * time.Second
	latencyTimeout  = time.Minute
)

// pair takes events and delivers them.
type pair struct{ name, target, eventType string }

// latencyBench is a server, a sink and a publisher, and both pairs, each with a consumer of its own.
type latencyBench struct {
	bridge, bare pair
	sink, load   string
}

func newLatencyBench(ctx context.Context, r *rig.Rig) (*latencyBench, error) {
	server, err := r.StartNATS(rig.NATS{Name: natsName})
	if err != nil {
		return nil, err
	}
	sink, err := r.Start("sink")
	if err != nil {
		return nil, err
	}
	load, err := r.Start("load")
	if err != nil {
		return nil, err
	}
	ours := rig.Route(benchName, "ours", benchName, "ours.v1", latencyInFlight)
	theirs := rig.Route(benchName, "bare", benchName, "bare.v1", barePrefetch)
	fixture := rig.Fixture{NATS: server.Where, Endpoints: map[string][]string{
		ours.Service.String(): {strings.TrimPrefix(sink.Where, "http://")},
	}}
	fixture.Routes = append(fixture.Routes, ours, theirs)
	if err := fixture.PrepareAlone(ctx, broker.DefaultStreamOptions(), 30*time.Second); err != nil {
		return nil, err
	}
	fixture.Routes = fixture.Routes[:1]
	bridge, err := r.StartBridge(fixture, 0)
	if err != nil {
		return nil, err
	}
	ingress, err := r.Start("ingress", server.Where)
	if err != nil {
		return nil, err
	}
	if _, err := r.Start("deliver", server.Where, theirs.Consumer, sink.Where, strconv.Itoa(latencyInFlight)); err != nil {
		return nil, err
	}
	return &latencyBench{
		bridge: pair{"bridge", bridge.Address(rig.Public), "ours.v1"}, bare: pair{"bare", ingress.Where, "bare.v1"}, sink: sink.Where, load: load.Where,
	}, nil
}

// run publishes to one of the pairs and asks the sink for what came.
func (b *latencyBench) run(ctx context.Context, round, rate, seconds int, p pair, f *latencyFigures) error {
	counted := time.Now().Add(latencyWarmUp)
	if err := rig.GetJSON(ctx, fmt.Sprintf("%s/reset?from=%d", b.sink, counted.UnixNano()), nil); err != nil {
		return err
	}
	published, err := order{
		Target: strings.TrimPrefix(p.target, "http://"), Prefix: fmt.Sprintf("%s-%d-%d", p.name, rate, round), Type: p.eventType,
		Connections: connections, WarmUp: latencyWarmUp, Duration: time.Duration(seconds) * time.Second, PerSecond: rate,
	}.Run(ctx, b.load)
	if err != nil {
		return fmt.Errorf("publish to the %s: %w", p.name, err)
	}
	seen, err := b.await(ctx, published.Answered)
	if err != nil {
		return fmt.Errorf("events of the %s: %w", p.name, err)
	}
	f.p50, f.p99 = append(f.p50, seen.P50), append(f.p99, seen.P99)
	fmt.Printf("%-6d %9d  %-7s %9d %9.2f %9.2f %9.2f\n", round+1, rate, p.name, seen.Events, seen.P50, seen.P99, seen.Most)
	return nil
}

// await returns when the sink has the published events. The publisher began to count a moment after the sink.
func (b *latencyBench) await(ctx context.Context, published int) (s seenAges, err error) {
	for deadline := time.Now().Add(latencyTimeout); time.Now().Before(deadline) && ctx.Err() == nil; {
		if err := rig.GetJSON(ctx, b.sink+"/seen", &s); err != nil || s.Events >= published {
			return s, err
		}
		time.Sleep(20 * time.Millisecond)
	}
	return s, fmt.Errorf("the sink has %d of %d after %s", s.Events, published, latencyTimeout)
}

// seenAges is what the sink knows of the events since it was reset, in milliseconds.
type seenAges struct {
	Events         int
	P50, P99, Most float64
}

// ages are those of events that should have been sent at a time or later.
type ages struct {
	mu   sync.Mutex
	from time.Time
	all  []time.Duration
}

func (a *ages) add(sent, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !sent.Before(a.from) {
		a.all = append(a.all, now.Sub(sent))
	}
}

func (a *ages) reset(from time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.from, a.all = from, nil
}

func (a *ages) seen() seenAges {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.all) == 0 {
		return seenAges{}
	}
	return seenAges{
		Events: len(a.all), P50: rig.Milliseconds(a.all, 50), P99: rig.Milliseconds(a.all, 99), Most: rig.Milliseconds(a.all, 100),
	}
}

// agingSink answers 204 and compares the time in each event's data with its own clock, which is the publisher's.
func agingSink(ctx context.Context, ready func(string), _ []string) error {
	a := &ages{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		now := time.Now()
		body, err := io.ReadAll(r.Body)
		var nanos int64
		if err == nil {
			_, err = fmt.Sscanf(string(body[:min(len(body), 40)]), `{"at":%d,`, &nanos)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		a.add(time.Unix(0, nanos), now)
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("GET /reset", func(_ http.ResponseWriter, r *http.Request) {
		from, _ := strconv.ParseInt(r.URL.Query().Get("from"), 10, 64)
		a.reset(time.Unix(0, from))
	})
	mux.HandleFunc("GET /seen", func(w http.ResponseWriter, _ *http.Request) { rig.WriteJSON(w, a.seen()) })
	return rig.Serve(ctx, 0, ready, mux)
}
