package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
)

// settleTime is how long nothing has to happen before a state counts as settled.
const settleTime = 10 * time.Second

// bench is what runs.
type bench struct {
	settings settings
	rig      *rig.Rig
	cluster  *cluster
	shipped  shipped
	nats     string
	binary   string
	objects  []pair
	running  *controller // nil while none runs
	peak     int         // MiB
}

func newBench(ctx context.Context, r *rig.Rig, s settings) (b *bench, err error) {
	b = &bench{settings: s, rig: r, binary: s.binary}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.shipped, err = readChart(ctx, s.chart); err != nil {
		return b, err
	}
	if b.objects, err = makePairs(s.manifests, s.count); err != nil {
		return b, err
	}
	if b.binary == "" {
		b.binary = filepath.Join(r.Dir(), "controller")
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", b.binary, "./cmd/controller")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return b, fmt.Errorf("build the controller: %w: %s", err, out)
		}
	}
	server, err := r.StartNATS(rig.NATS{Name: "nats"})
	if err != nil {
		return b, err
	}
	b.nats = server.Where
	if b.cluster, err = startCluster(ctx, r.Dir(), b.shipped); err != nil {
		return b, err
	}
	fmt.Printf("the controller of the chart: %d flags, memory limit %s, GOMEMLIMIT %s\n", len(b.shipped.args), b.shipped.limit, b.shipped.memory())
	return b, nil
}

func (b *bench) close() error {
	var errs []error
	if b.running != nil {
		errs = append(errs, b.stop())
	}
	if b.cluster != nil {
		errs = append(errs, b.cluster.close())
	}
	return errors.Join(errs...)
}

// stop ends the controller as Kubernetes would, which releases its lease.
func (b *bench) stop() error {
	ended := b.running
	b.running = nil
	peak, err := ended.process.PeakRSS()
	b.peak = max(b.peak, peak)
	return errors.Join(err, ended.process.Stop())
}

// apply measures from the first object to the last status.
func (b *bench) apply(ctx context.Context, f *figures) error {
	ctx, cancel := context.WithTimeout(ctx, b.settings.timeout)
	defer cancel()
	if err := b.start(ctx); err != nil {
		return err
	}
	settled, err := watchSettled(ctx, b.cluster, b.settings.count)
	if err != nil {
		return err
	}
	defer settled.stop()
	before, err := b.cluster.calls()
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := b.cluster.create(ctx, b.objects); err != nil {
		return err
	}
	fmt.Printf("%d Functions and Subscriptions are created after %.1f s\n", b.settings.count, time.Since(begun).Seconds())
	if err := settled.await(ctx); err != nil {
		return err
	}
	took := time.Since(begun)
	f.applied = float64(b.settings.count) / took.Seconds()
	after, err := b.cluster.calls()
	if err != nil {
		return err
	}
	calls := after.since(before)
	fmt.Printf("all have their status after %.1f s; calls for each pair: %s\n", took.Seconds(), calls.per(b.settings.count))
	return b.quiet(ctx)
}

// resync measures from the start of a new process until it has reconciled each object and nothing is queued.
func (b *bench) resync(ctx context.Context, f *figures) error {
	ctx, cancel := context.WithTimeout(ctx, b.settings.timeout)
	defer cancel()
	rss, err := b.running.process.RSS()
	if err != nil {
		return err
	}
	if err := b.stop(); err != nil {
		return err
	}
	fmt.Printf("the first process had %d MiB, and %d MiB at most\n", rss, b.peak)
	before, err := b.cluster.calls()
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := b.start(ctx); err != nil {
		return err
	}
	done, err := b.running.awaitResync(ctx, b.settings.count)
	if err != nil {
		return err
	}
	f.resynced = done.Sub(begun).Seconds()
	after, err := b.cluster.calls()
	if err != nil {
		return err
	}
	calls := after.since(before)
	fmt.Printf("a new process has looked at all after %.1f s; its calls, %d of them writes: %s\n", f.resynced, calls.writes(), calls)
	return b.quiet(ctx)
}

// rest counts calls while nothing happens.
func (b *bench) rest(ctx context.Context, f *figures) error {
	if err := b.running.takeProfile(ctx, b.settings.profile); err != nil {
		return err
	}
	before, err := b.cluster.calls()
	if err != nil {
		return err
	}
	fmt.Printf("counting calls for %s\n", b.settings.idle)
	if err := sleep(ctx, b.settings.idle); err != nil {
		return err
	}
	after, err := b.cluster.calls()
	if err != nil {
		return err
	}
	calls := after.since(before)
	f.idle = float64(calls.total()) / b.settings.idle.Minutes()
	rss, err := b.running.process.RSS()
	if err != nil {
		return err
	}
	fmt.Printf("calls in %s: %s\n", b.settings.idle, calls)
	if err := b.stop(); err != nil {
		return err
	}
	f.peak = b.peak
	fmt.Printf("the second process had %d MiB; the most of both were %d MiB\n", rss, b.peak)
	return nil
}

// quiet returns when the controller has nothing to do for a while.
func (b *bench) quiet(ctx context.Context) error {
	for since := time.Now(); time.Since(since) < settleTime; {
		busy, err := b.running.busy(ctx)
		if err != nil {
			return err
		}
		if busy {
			since = time.Now()
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// lastWords are the end of the controller's log.
func (b *bench) lastWords() string {
	text, err := os.ReadFile(b.rig.Log(controllerName))
	if err != nil {
		return err.Error()
	}
	const most = 20
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(len(lines)-most, 0):], "\n")
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
