package dispatch

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

// Subscription names whose messages are delivered.
type Subscription struct{ Namespace, Name string }

// String is namespace/name.
func (s Subscription) String() string { return s.Namespace + "/" + s.Name }

// Deps are what one Dispatcher works with.
type Deps struct {
	Subscription Subscription
	MaxInFlight  int // at least 1
	Source       Source
	Gate         Gate
	Sink         Sink
	DeadLetters  DeadLetters
	Metrics      *Metrics
	Log          logr.Logger
}

// Dispatcher delivers one Subscription's messages.
type Dispatcher struct {
	Deps
	options Options
	policy  policy
	metrics bound
	slots   slots
	held    *inFlight
}

// Waits between fetches that failed, and the time a settlement may take.
const (
	fetchBackoffBase = 100 * time.Millisecond
	fetchBackoffMax  = 2 * time.Second
	settleTimeout    = 10 * time.Second
)

// New makes a Dispatcher; Run starts it.
func New(deps Deps, options Options) *Dispatcher {
	deps.MaxInFlight = max(min(deps.MaxInFlight, options.MaxInFlight), 1)
	return &Dispatcher{
		Deps:    deps,
		options: options,
		policy:  policy{maxAttempts: options.MaxAttempts, backoff: options.Backoff, shortDelay: options.ShortDelay},
		metrics: deps.Metrics.bind(deps.Subscription),
		slots:   newSlots(deps.MaxInFlight),
		held:    newInFlight(),
	}
}

// Run delivers until ctx ends, drains, and returns when every message it held is settled.
func (d *Dispatcher) Run(ctx context.Context) {
	work, interrupt := context.WithCancel(context.WithoutCancel(ctx))
	defer interrupt()
	var workers, keeper sync.WaitGroup
	keepAlive, stopKeeper := context.WithCancel(context.WithoutCancel(ctx))
	keeper.Go(func() { d.held.keepAlive(keepAlive, d.options.AckWait/2, d.extendFailed) })

	d.pull(ctx, func(msg Message) {
		workers.Go(func() {
			defer d.slots.release(1)
			d.deliver(work, msg)
		})
	})
	d.drain(&workers, interrupt)
	stopKeeper()
	keeper.Wait()
}

// pull hands messages to start until ctx ends.
func (d *Dispatcher) pull(ctx context.Context, start func(Message)) {
	backoff := Backoff{Base: fetchBackoffBase, Max: fetchBackoffMax, Jitter: 0.2}
	failures := 0
	for {
		closed, err := d.Gate.Wait(ctx)
		if err != nil {
			return
		}
		free := d.slots.acquire(ctx)
		if free == 0 {
			return
		}
		if isClosed(closed) { // while all workers were busy
			d.slots.release(free)
			continue
		}
		messages, err := d.fetch(ctx, closed, free)
		d.slots.release(free - len(messages))
		for _, msg := range messages {
			start(msg)
		}
		if err == nil {
			if failures > 0 {
				d.Log.Info("fetching again", "failures", failures)
			}
			failures = 0
			continue
		}
		d.metrics.fetchErrors.Inc()
		if failures++; failures == 1 { // once per outage
			d.Log.Info("cannot fetch, trying again", "reason", err.Error())
		}
		if !sleep(ctx, backoff.Delay(failures, 0, random())) {
			return
		}
	}
}

// fetch waits for messages for as long as the gate is open. Being called off is no error.
func (d *Dispatcher) fetch(ctx context.Context, closed <-chan struct{}, limit int) ([]Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-closed:
			cancel()
		case <-ctx.Done():
		}
	}()
	messages, err := d.Source.Fetch(ctx, limit)
	if ctx.Err() != nil {
		err = nil
	}
	return messages, err
}

// drain waits for the workers and interrupts those that take too long.
func (d *Dispatcher) drain(workers *sync.WaitGroup, interrupt context.CancelFunc) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		workers.Wait()
	}()
	timeout := time.NewTimer(d.options.DrainTimeout)
	defer timeout.Stop()
	select {
	case <-done:
	case <-timeout.C:
		d.Log.Info("interrupting deliveries that outlast the drain", "count", len(d.held.snapshot()))
		interrupt()
		<-done
	}
}

func (d *Dispatcher) extendFailed(err error) {
	d.Log.V(1).Info("cannot extend a message", "reason", err.Error())
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// sleep reports false when ctx ended first.
func sleep(ctx context.Context, delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

func random() float64 {
	return rand.Float64() //nolint:gosec // jitter needs no secrecy
}
