// Command controller measures the controller that an installation has, with very many Functions and Subscriptions: how fast they
// reach their status, how long a new process takes until it has looked at each of them, its memory, and what it asks of the API
// server when nothing happens. kube-apiserver, etcd and nats-server are real; there are no nodes, and the tool says in place of
// Kubernetes and KEDA that all is well.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
)

func main() { rig.Main(measure, nil) }

// settings are the command's flags.
type settings struct {
	count     int
	idle      time.Duration
	timeout   time.Duration
	chart     string
	manifests string
	binary    string
	profile   string
}

func readSettings(arguments []string) (settings, error) {
	flags := flag.NewFlagSet("controller", flag.ContinueOnError)
	s := settings{}
	flags.IntVar(&s.count, "n", 10_000, "Functions, and as many Subscriptions")
	flags.DurationVar(&s.idle, "idle", 5*time.Minute, "how long calls are counted while nothing happens")
	flags.DurationVar(&s.timeout, "timeout", time.Hour, "how long it may take until all have their status")
	flags.StringVar(&s.chart, "chart", "charts/rouse", "the chart whose flags, rights and memory limit the controller gets")
	flags.StringVar(&s.manifests, "manifests", "samples/orders/pricing.yaml", "the Function and the Subscription that are made so often")
	flags.StringVar(&s.binary, "binary", "", "the controller; empty: it is built")
	flags.StringVar(&s.profile, "profile", "", "where heap profiles of the controller go; empty: none are taken")
	if err := flags.Parse(arguments); err != nil {
		return s, err
	}
	if s.count < 1 || s.idle <= 0 || s.timeout <= 0 {
		return s, errors.New("-n, -idle and -timeout have to be more than 0")
	}
	return s, nil
}

func measure(ctx context.Context, r *rig.Rig) (err error) {
	s, err := readSettings(os.Args[1:])
	if err != nil {
		return err
	}
	b, err := newBench(ctx, r, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	var f figures
	for _, stage := range []func(context.Context, *figures) error{b.apply, b.resync, b.rest} {
		if err := stage(ctx, &f); err != nil {
			return fmt.Errorf("%w\n%s", err, b.lastWords())
		}
	}
	fmt.Printf("controller n=%d apply_per_s=%.1f resync_s=%.1f rss_mib=%d idle_api_calls_per_min=%.0f\n",
		s.count, f.applied, f.resynced, f.peak, f.idle)
	return nil
}

// figures are what the last line says.
type figures struct {
	applied  float64 // pairs of a Function and its Subscription per second
	resynced float64 // seconds
	peak     int     // MiB, the most that a process had
	idle     float64 // calls per minute
}
