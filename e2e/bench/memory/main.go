// Command memory plays against a bridge what could make it take memory without bound, and shows the most that it had,
// beside the limit that the chart gives it. Another publisher publishes meanwhile, as everybody else would.
//
// Each shape has a bridge of its own, with the chart's GOMEMLIMIT. Memory of the kernel for sockets is not counted; the kernel
// takes it back when a pod comes near its limit.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

const eventType = "attacked.v1"

func main() { rig.Main(measure, nil) }

// figures are those of one shape.
type figures struct {
	rss             int // MiB, the most
	stored, refused int // events of the other publisher
	alive           bool
}

func measure(ctx context.Context, r *rig.Rig) error {
	limit, err := chartLimit()
	if err != nil {
		return err
	}
	server, err := r.StartNATS(rig.NATS{Name: "nats"})
	if err != nil {
		return err
	}
	world := rig.World{NATS: server.Where, Routes: []routing.Route{rig.Route("bench", "asleep", source, eventType, 10)}}
	if err := world.PrepareAlone(ctx, broker.DefaultStreamOptions(), 30*time.Second); err != nil {
		return err
	}
	if err := os.Setenv("GOMEMLIMIT", strconv.FormatInt(limit/10*9, 10)); err != nil { // as the chart does
		return err
	}
	seconds, scale := rig.Setting("SHAPE_SECONDS", 10), rig.Setting("SCALE_PERCENT", 100)
	fmt.Printf("%d s each, %d %% of the connections, limit %d MiB\n", seconds, scale, limit>>20)
	fmt.Printf("%-45s %8s %7s %8s\n", "shape", "RSS MiB", "stored", "refused")
	worst, killed := 0, 0
	for _, s := range shapes {
		s.connections = max(1, s.connections*scale/100)
		f, err := play(ctx, r, world, s, time.Duration(seconds)*time.Second)
		if err != nil {
			return err
		}
		fmt.Printf("%-45s %8d %7d %8d\n", s.name, f.rss, f.stored, f.refused)
		worst = max(worst, f.rss)
		if !f.alive || int64(f.rss)<<20 > limit {
			killed++
		}
	}
	fmt.Printf("memory shapes=%d worst_rss_mib=%d limit_mib=%d oom=%d\n", len(shapes), worst, limit>>20, killed)
	if killed > 0 {
		return errors.New("a bridge took more memory than the chart gives it")
	}
	return nil
}

// play has one shape played against a bridge.
func play(ctx context.Context, r *rig.Rig, world rig.World, s shape, duration time.Duration) (figures, error) {
	bridge, err := r.StartBridge(world, 0)
	if err != nil {
		return figures{}, err
	}
	defer bridge.Kill()
	where, _, _ := strings.Cut(bridge.Where, " ") // behind it is where the metrics are
	ctx, stop := context.WithTimeout(ctx, duration)
	defer stop()
	attacked := make(chan struct{})
	go func() {
		defer close(attacked)
		attack(ctx, strings.TrimPrefix(where, "http://"), s)
	}()
	f := figures{alive: true}
	f.stored, f.refused = publish(ctx, where)
	<-attacked
	select {
	case <-bridge.Done():
		f.alive = false
		return f, nil
	default:
	}
	f.rss, err = bridge.PeakRSS()
	return f, err
}
