package main

import (
	"fmt"
	"time"

	"github.com/rouse-run/rouse/e2e/framework"
)

// round is what one round of one language took.
type round struct {
	inline, first, rebuild time.Duration
	podWithout, pod        time.Duration // until a second pod was ready, without and with dependencies
}

func (r *round) values() []*time.Duration {
	return []*time.Duration{&r.inline, &r.first, &r.rebuild, &r.podWithout, &r.pod}
}

func median(rounds []round) round {
	var typical round
	for i, value := range typical.values() {
		column := make([]time.Duration, len(rounds))
		for n := range rounds {
			column[n] = *rounds[n].values()[i]
		}
		*value = framework.Percentile(column, 50)
	}
	return typical
}

// slower has the greater of both in each place.
func slower(a, b round) round {
	var worst round
	for i, value := range worst.values() {
		*value = max(*a.values()[i], *b.values()[i])
	}
	return worst
}

func header() string {
	return fmt.Sprintf("%-10s %-7s %9s %14s %10s %14s %14s", "runtime", "round", "inline_s", "first_build_s", "rebuild_s", "pod_without_s", "pod_with_s")
}

func line(runtime, name string, r round) string {
	return fmt.Sprintf("%-10s %-7s %9.2f %14.2f %10.2f %14.2f %14.2f", runtime, name,
		r.inline.Seconds(), r.first.Seconds(), r.rebuild.Seconds(), r.podWithout.Seconds(), r.pod.Seconds())
}
