package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/rouse-run/rouse/e2e/rig"
)

// The rate of events, and how many are in flight at most.
const (
	perSecond = 10_000
	inFlight  = 100
)

// worthwhile is what part of a bridge's CPU own code has to spare.
const worthwhile = 0.15

func main() {
	rig.Main(measure, map[string]rig.Role{"sink": sinkRole})
}

// sinkRole answers 204 to every event.
func sinkRole(ctx context.Context, ready func(string), _ []string) error {
	return rig.Serve(ctx, 0, ready, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
}

func measure(ctx context.Context, r *rig.Rig) error {
	rounds, seconds := rig.Setting("ROUNDS", 5), rig.Setting("ROUND_SECONDS", 3)
	events := seconds * perSecond
	sink, err := r.Start("sink")
	if err != nil {
		return err
	}
	server, err := startServer(ctx, r, events)
	if err != nil {
		return err
	}
	defer server.close(ctx)
	bridge, err := newBridge(ctx, r, server, sink.Where)
	if err != nil {
		return err
	}
	clients, err := newClients(ctx, strings.TrimPrefix(sink.Where, "http://"))
	if err != nil {
		return err
	}
	defer clients.close()
	groups := chosen([]group{clients.group(events), storing(), delivering(), server.group(events)}, os.Getenv("JOB"))
	fmt.Printf("events of 1 KiB at %d/s, %d in flight, %d rounds of %d s\n", perSecond, inFlight, rounds, seconds)
	all, err := play(ctx, groups, bridge, rounds, events)
	if err != nil {
		return err
	}
	report(groups, all, rig.Median(bridge.micros))
	return nil
}

// play has the rounds, and returns the figures of each variant of each group.
func play(ctx context.Context, groups []group, bridge *bridge, rounds, events int) ([][]*figures, error) {
	all := make([][]*figures, len(groups))
	for i, g := range groups {
		for range g.variants {
			all[i] = append(all[i], &figures{})
		}
	}
	for round := range rounds {
		if err := bridge.deliver(ctx, events); err != nil {
			return nil, err
		}
		for i, g := range groups {
			if err := g.measure(ctx, round, all[i]); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// chosen are all jobs, or the one that is named.
func chosen(groups []group, name string) []group {
	if name == "" {
		return groups
	}
	return slices.DeleteFunc(groups, func(g group) bool { return g.name != name })
}

// report prints the medians, and what our own variants spare beside the others.
func report(groups []group, all [][]*figures, bridge float64) {
	fmt.Printf("a bridge takes %.1f us of CPU for an event that it delivers; %.0f %% of that are %.1f us\n",
		bridge, 100*worthwhile, worthwhile*bridge)
	fmt.Printf("%-8s %-19s %7s %13s %7s %11s %14s\n", "job", "who", "CPU us", "least - most", "allocs", "own spares", "of the bridge")
	var line strings.Builder
	fmt.Fprintf(&line, "own bridge_us=%.1f", bridge)
	for i, g := range groups {
		for j, v := range g.variants {
			f := all[i][j]
			spared := f.cpu() - all[i][0].cpu()
			fmt.Printf("%-8s %-19s %7.2f %5.1f - %5.1f %7.1f %11.2f %12.1f %%\n", g.name, v.name,
				f.cpu(), slices.Min(f.micros), slices.Max(f.micros), rig.Median(f.allocations), spared, 100*spared/bridge)
			if j > 0 {
				fmt.Fprintf(&line, " %s_%s=%.1f", g.name, strings.ReplaceAll(v.name, "/", "_"), spared)
			}
		}
	}
	fmt.Println(line.String())
}
