// Command memory plays hostile loads against a bridge that could make it take unbounded memory, and shows its peak
// beside the chart's limit. An honest publisher publishes meanwhile.
//
// Each shape has a bridge and a NATS of its own. The bridge has the chart's GOMEMLIMIT and, where the system has version 2 of
// control groups and lets us, a group with the chart's limit: then the kernel's memory counts as well, and a bridge that takes
// too much is killed. Elsewhere it is the memory of the process alone.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
)

func main() { rig.Main(measure, nil) }

func measure(ctx context.Context, r *rig.Rig) error {
	const limit = rig.BridgeMemory
	r.LimitBridges(limit)
	goLimit := cmp.Or(os.Getenv("GOMEMLIMIT"), strconv.FormatInt(limit/10*9, 10)) // as the chart does
	if err := os.Setenv("GOMEMLIMIT", goLimit); err != nil {
		return err
	}
	seconds, scale := rig.Setting("SHAPE_SECONDS", 10), rig.Setting("SCALE_PERCENT", 100)
	fmt.Printf("%d s each, %d %% of connections, Subscriptions and events, limit %d MiB, GOMEMLIMIT %s\n", seconds, scale, limit>>20, goLimit)
	fmt.Printf("%-45s %8s %7s %8s  %s\n", "shape", "peak MiB", "stored", "refused", "the attacker")
	played, worst, killed := 0, 0, 0
	from := ""
	for _, s := range shapes() {
		if named := os.Getenv("SHAPE"); named != "" && named != s.name {
			continue
		}
		f, err := play(ctx, r, s.scaled(scale), time.Duration(seconds)*time.Second)
		if err != nil {
			return err
		}
		fmt.Printf("%-45s %8d %7d %8d  %s\n", s.name, f.peak, f.stored, f.refused, f.gained())
		played, worst, from = played+1, max(worst, f.peak), f.from
		if !f.alive || int64(f.peak)<<20 > limit {
			killed++
		}
	}
	fmt.Printf("measured by %s\n", from)
	fmt.Printf("memory shapes=%d worst_rss_mib=%d limit_mib=%d oom=%d\n", played, worst, limit>>20, killed)
	if killed > 0 {
		return errors.New("a bridge took more memory than the chart gives it")
	}
	return nil
}

// gained formats what the attackers got.
func (f figures) gained() string {
	var parts []string
	for _, part := range []struct {
		of int64
		as string
	}{
		{f.got.sent.Load(), "%d sent"},
		{f.got.taken.Load(), "%d taken"},
		{f.got.refused.Load(), "%d refused"},
		{f.got.broken.Load(), "%d connections cut"},
		{f.calls, "%d deliveries"},
	} {
		if part.of > 0 {
			parts = append(parts, fmt.Sprintf(part.as, part.of))
		}
	}
	if !f.alive {
		parts = append(parts, "the bridge died")
	}
	return strings.Join(parts, ", ")
}
