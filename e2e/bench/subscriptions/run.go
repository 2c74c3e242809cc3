package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
)

// run starts a bridge for events that wait, and measures it while it idles and while it works.
func (b *bench) run(ctx context.Context, asleep bool, seconds int) (f figures, err error) {
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

func (b *bench) observe(ctx context.Context, p *rig.Process, active bool, seconds int, show func(sample)) error {
	cpu, err := p.CPU()
	if err != nil {
		return err
	}
	var before, after seen
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
