package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rouse-run/rouse/e2e/rig"
)

const (
	controllerName = "controller"
	readyTimeout   = time.Minute
	pollInterval   = 200 * time.Millisecond
	steady         = 5 // polls without work mean that there is none

	metricReconciled = "controller_runtime_reconcile_total"
	metricQueued     = "workqueue_depth"
	metricWorking    = "controller_runtime_active_workers"
)

// controller is a running one.
type controller struct {
	process  *rig.Process
	address  string
	profiles string
}

// start runs the controller as the chart does, at our servers.
func (b *bench) start(ctx context.Context) error {
	ports, err := rig.Ports(2)
	if err != nil {
		return err
	}
	address, profiles := "127.0.0.1:"+strconv.Itoa(ports[0]), "127.0.0.1:"+strconv.Itoa(ports[1])
	args := append(slices.Clone(b.shipped.args), "--nats-url="+b.nats, "--metrics-address="+address) // the last one of a flag holds
	if b.settings.profile != "" {
		args = append(args, "--pprof-address="+profiles)
	}
	process, err := b.rig.Run(controllerName, append(slices.Clone(b.shipped.environment), "KUBECONFIG="+b.cluster.kubeconfig), b.binary, args...)
	if err != nil {
		return err
	}
	b.running = &controller{process: process, address: "http://" + address, profiles: "http://" + profiles}
	for deadline := time.Now().Add(readyTimeout); ; {
		if _, err = get(ctx, b.running.address+"/readyz"); err == nil {
			return nil
		}
		select {
		case <-process.Done():
			return errors.New("the controller has ended")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollInterval):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the controller is not ready after %s: %w", readyTimeout, err)
		}
	}
}

func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask the controller: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask the controller: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %s", response.Status)
	}
	if err != nil {
		return nil, fmt.Errorf("ask the controller: %w", err)
	}
	return body, nil
}

// work is what a controller says of its queues.
type work struct {
	reconciled map[string]int // by controller
	open       int            // queued, or being worked on
}

func (c *controller) work(ctx context.Context) (w work, err error) {
	text, err := get(ctx, c.address+"/metrics")
	if err != nil {
		return w, err
	}
	return workOf(text)
}

// workOf reads metrics.
func workOf(text []byte) (work, error) {
	w := work{reconciled: map[string]int{}}
	for line := range strings.Lines(string(text)) {
		name, rest, labelled := strings.Cut(line, "{")
		if !labelled || !slices.Contains([]string{metricReconciled, metricQueued, metricWorking}, name) {
			continue
		}
		labels, number, _ := strings.Cut(rest, "} ")
		value, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil {
			return w, fmt.Errorf("read metrics: %q: %w", line, err)
		}
		if name != metricReconciled {
			w.open += int(value)
			continue
		}
		if _, from, found := strings.Cut(labels, `controller="`); found {
			controller, _, _ := strings.Cut(from, `"`)
			w.reconciled[controller] += int(value)
		}
	}
	return w, nil
}

func (c *controller) busy(ctx context.Context) (bool, error) {
	w, err := c.work(ctx)
	return w.open > 0, err
}

// awaitResync returns when each object was reconciled and nothing is queued. The caches are read before anything is reconciled, so
// a queue that is empty then has had them all.
func (c *controller) awaitResync(ctx context.Context, count int) (done time.Time, err error) {
	for idle := 0; ; {
		w, err := c.work(ctx)
		if err != nil {
			return done, err
		}
		switch {
		case w.reconciled["function"] < count || w.reconciled["subscription"] < count || w.open > 0:
			idle = 0
		case idle == 0:
			done, idle = time.Now(), 1
		default:
			idle++
		}
		if idle >= steady {
			return done, nil
		}
		select {
		case <-c.process.Done():
			return done, errors.New("the controller has ended")
		case <-ctx.Done():
			return done, fmt.Errorf("%v are reconciled of %d, and %d are queued: %w", w.reconciled, count, w.open, ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

// takeProfile stores the heap, if a folder is named.
func (c *controller) takeProfile(ctx context.Context, dir string) error {
	if dir == "" {
		return nil
	}
	heap, err := get(ctx, c.profiles+"/debug/pprof/heap")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "controller.heap"), heap, 0o600)
}
