// Command retries measures how late the retries of one Subscription come back: alone, while those of many others wait, a
// million by default, in ten namespaces, for up to an hour, and while a crowd of one of these namespaces asks to come
// back at one moment. Those of others that come back fail again.
package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
)

func main() {
	rig.Main(measure, map[string]rig.Role{"sink": sinkRole})
}

func measure(ctx context.Context, r *rig.Rig) error {
	count, seconds := rig.Setting("RETRIES", 1_000_000), rig.Setting("ROUND_SECONDS", 30)
	b, err := newBench(ctx, r, count)
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
