package dispatch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse/internal/failure"
)

const (
	// maxOverLimit bounds how many messages over a limit become dead letters concurrently.
	maxOverLimit = 16
	// gateGrace is the last wait for the gate before messages are received while it is closed.
	gateGrace = 10 * time.Millisecond
	// pollInterval is the pause before messages are received again behind a closed gate after one that was within the
	// limits, and between checks of the running calls while the quota is exceeded.
	pollInterval = time.Second
)

// limits holds the state of the limits by which messages become dead letters without an attempt.
type limits struct {
	slots chan struct{} // held by messages over a limit
	// nextPoll is when messages are received although the gate is closed, because the first of them may have expired or
	// may exceed the quota. Only receive touches it.
	nextPoll time.Time
	calls    atomic.Pointer[calls]
	received atomic.Int64 // number of messages; unchanged when none arrive
}

// calls is a set of calls that are interrupted together.
type calls struct {
	ctx  context.Context //nolint:containedctx // parent of all calls until it ends
	stop context.CancelFunc
}

func (d *Dispatcher) limited() bool { return d.Quota != nil || d.options.TTL > 0 }

// over returns why a message is not to be delivered, empty if it is.
func (d *Dispatcher) over(msg Message) failure.Reason {
	switch {
	case d.Quota != nil && d.Quota.Over(msg):
		return failure.QuotaExceeded
	case d.options.TTL > 0 && time.Since(msg.Waiting()) >= d.options.TTL:
		return failure.Expired
	default:
		return ""
	}
}

// overBy returns the same for a job. A message that was over a limit once is never sent: its sink may be gone.
func (d *Dispatcher) overBy(j *job) failure.Reason {
	if j.over != "" || !d.limited() {
		return j.over
	}
	return d.over(j.Message)
}

// awaitWork waits for the gate, or until messages are to be received behind it.
func (d *Dispatcher) awaitWork(ctx context.Context) (ended <-chan struct{}, open bool, err error) {
	if !d.limited() {
		ended, err = d.Gate.Wait(ctx)
		return ended, true, err
	}
	either, found := context.WithCancel(ctx)
	defer found()
	var within <-chan struct{}
	var polls sync.WaitGroup
	polls.Go(func() {
		within = d.awaitPoll(either)
		sleep(either, gateGrace) // prefer an open gate
		found()
	})
	gate, err := d.Gate.Wait(either)
	found()
	polls.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	case err == nil:
		return gate, true, nil
	default:
		return within, false, nil
	}
}

// awaitPoll waits for the next poll. It returns a nil channel when the poll is for expired messages.
func (d *Dispatcher) awaitPoll(ctx context.Context) <-chan struct{} {
	expire := d.options.TTL > 0
	if d.Quota == nil {
		sleep(ctx, time.Until(d.limits.nextPoll))
		return nil
	}
	until := ctx
	if expire {
		var cancel context.CancelFunc
		until, cancel = context.WithDeadline(ctx, d.limits.nextPoll)
		defer cancel()
	}
	within, err := d.Quota.Wait(until)
	if err != nil {
		return nil
	}
	sleep(ctx, min(time.Until(d.limits.nextPoll), pollInterval))
	return within
}

// shed receives behind a closed gate until the gate opens, the quota is no longer exceeded, or a message is within the
// limits.
func (d *Dispatcher) shed(ctx context.Context, within <-chan struct{}) error {
	stop := make(chan struct{})
	end := sync.OnceFunc(func() { close(stop) })
	receiving, cancel := context.WithCancel(ctx)
	var waits sync.WaitGroup
	defer waits.Wait()
	defer cancel()
	waits.Go(func() {
		if _, err := d.Gate.Wait(receiving); err == nil {
			end()
		}
	})
	waits.Go(func() {
		select {
		case <-within:
			end()
		case <-receiving.Done():
		}
	})
	return d.Source.Receive(ctx, stop, func(msg Message) {
		if over := d.over(msg); over != "" {
			d.startOverLimit(msg, over)
			return
		}
		if !isClosed(stop) {
			d.limits.nextPoll = time.Now().Add(pollInterval)
			if expires := msg.Waiting().Add(d.options.TTL); expires.After(d.limits.nextPoll) {
				d.limits.nextPoll = expires
			}
		}
		end()
		d.series.get().inFlight.Inc()
		d.giveBack(ctx, []*job{{Message: msg}})
	})
}

// startOverLimit dead-letters a message over a limit, bypassing those that wait for the sink.
func (d *Dispatcher) startOverLimit(msg Message, over failure.Reason) {
	d.limits.slots <- struct{}{}
	d.series.get().inFlight.Inc()
	j := &job{Message: msg, attempt: msg.Attempt(), over: over}
	if d.options.OrderedBy != "" {
		j.key = d.keyOf(msg)
	}
	d.workers.start(j)
}

// watch runs watchQuota until stop is called.
func (d *Dispatcher) watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { d.watchQuota(ctx) })
	return func() {
		cancel()
		watching.Wait()
	}
}

// watchQuota interrupts calls while the quota is exceeded and no messages arrive, until ctx ends: the broker delivers
// no others before those that are held are settled, and a sink may be slow.
func (d *Dispatcher) watchQuota(ctx context.Context) {
	for {
		within, err := d.Quota.Wait(ctx)
		if err != nil {
			return
		}
		for !isClosed(within) {
			before := d.limits.received.Load()
			if !sleep(ctx, pollInterval) {
				return
			}
			if d.limits.received.Load() == before && d.held.count() > 0 {
				d.interruptCalls()
				d.giveBack(ctx, d.scheduler.clear(false))
			}
		}
	}
}

// newCalls begins a new set of calls, which all end with ctx.
func newCalls(ctx context.Context) *calls {
	c := &calls{}
	c.ctx, c.stop = context.WithCancel(ctx)
	return c
}

func (d *Dispatcher) interruptCalls() {
	before := d.limits.calls.Load()
	d.limits.calls.Store(newCalls(d.work))
	before.stop()
}
