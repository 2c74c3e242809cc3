package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// median is the middle value; 0 when there are none.
func median[T cmp.Ordered](values []T) T {
	return rank(values, 0.5)
}

// rank is the value that the given share of the values does not exceed; 0 when there are none.
func rank[T cmp.Ordered](values []T, share float64) T {
	if len(values) == 0 {
		var zero T
		return zero
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(share*float64(len(sorted)-1))]
}

// over collects one figure of all rounds.
func over[T any](loads []load, figure func(load) T) []T {
	figures := make([]T, 0, len(loads))
	for _, l := range loads {
		figures = append(figures, figure(l))
	}
	return figures
}

// ratio is the share of the bare server's throughput, round by round, so that both have had the same machine.
func ratio(s, bare *server) float64 {
	var shares []float64
	for i, l := range s.loads {
		if i < len(bare.loads) && bare.loads[i].requests > 0 {
			shares = append(shares, l.perSecond()/bare.loads[i].perSecond())
		}
	}
	return median(shares)
}

// report prints the table and then the line that says it all: for each language the worse of its APIs, untraced as
// wherever there is no collector.
func report(w io.Writer, servers []*server) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	rows := []string{"runtime\trequests/s\tp50 ms\tp99 ms\tRSS MiB\tof bare\t"}
	bare := map[string]*server{}
	worst := map[string]float64{}
	for _, s := range servers {
		share := "1.00"
		if s.of == "" {
			bare[s.name] = s
		} else {
			value := ratio(s, bare[s.of])
			share = fmt.Sprintf("%.2f", value)
			language, _, _ := strings.Cut(s.name, " ")
			if known, ok := worst[language]; !s.traced && (!ok || value < known) {
				worst[language] = value
			}
		}
		rows = append(rows, fmt.Sprintf("%s\t%.0f\t%.2f\t%.2f\t%d\t%s\t", s.name, median(over(s.loads, load.perSecond)),
			milliseconds(median(over(s.loads, load.p50))), milliseconds(median(over(s.loads, load.p99))), s.rss, share))
	}
	if _, err := fmt.Fprintln(table, strings.Join(rows, "\n")); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print table: %w", err)
	}
	_, err := fmt.Fprintf(w, "runtime node_ratio=%s python_ratio=%s\n", figure(worst, "nodejs"), figure(worst, "python"))
	return err
}

func figure(worst map[string]float64, language string) string {
	if value, ok := worst[language]; ok {
		return fmt.Sprintf("%.2f", value)
	}
	return "none"
}

func (l load) p50() time.Duration { return rank(l.latencies, 0.5) }
func (l load) p99() time.Duration { return rank(l.latencies, 0.99) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
