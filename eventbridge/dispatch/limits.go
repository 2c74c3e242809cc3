package dispatch

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse/internal/failure"
)

const (
	// maxOverLimit is how many messages become dead letters at a time without having been tried.
	maxOverLimit = 16
	// gateGrace is the last wait for the gate before messages are received behind a closed one.
	gateGrace = 10 * time.Millisecond
	// pollInterval is the pause before messages are received again behind a closed gate when the last was not over a
	// limit, and between checks of the calls that run while there are too many messages.
	pollInterval = time.Second
)

// limits are those by which messages become dead letters although nothing was tried.
type limits struct {
	slots chan struct{} // held by messages that are over
	// nextPoll is when messages are to be received although the gate is closed, because the first of them may have expired or
	// may be over the quota. Only receive touches it.
	nextPoll time.Time
	calls    atomic.Pointer[calls]
	received atomic.Int64 // messages, so that it shows when none come any more
}

// calls can be interrupted together.
type calls struct {
	ctx  context.Context //nolint:containedctx // of all that begin until it ends
	stop context.CancelFunc
}

func (d *Dispatcher) limited() bool { return d.Quota != nil || d.options.TTL > 0 }

// over is why a message is not to be delivered any more, empty if it is.
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

// overBy is the same of a job. What was over once is not sent: its sink may not be there.
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
	var gate, within <-chan struct{}
	var gateErr error
	var waits sync.WaitGroup
	waits.Go(func() {
		defer found()
		gate, gateErr = d.Gate.Wait(either)
	})
	waits.Go(func() {
		within = d.awaitPoll(either)
		sleep(either, gateGrace) // an open gate comes first
		found()
	})
	waits.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, false, ctx.Err()
	case gateErr == nil:
		return gate, true, nil
	default:
		return within, false, nil
	}
}

// awaitPoll waits for the time of the next poll. The channel that it returns is nil when that poll is for expired messages.
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

// shed receives behind a closed gate, until the gate opens, the quota is kept again, or a message is not over.
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
		d.metrics.inFlight.Inc()
		d.giveBack(ctx, []*job{{Message: msg}})
	})
}

// startOverLimit makes a dead letter of a message that is over, past those that wait for the sink.
func (d *Dispatcher) startOverLimit(msg Message, over failure.Reason) {
	d.limits.slots <- struct{}{}
	d.metrics.inFlight.Inc()
	j := &job{Message: msg, attempt: msg.Attempt(), over: over}
	if d.options.OrderedBy != "" {
		j.key = d.keyOf(msg)
	}
	d.start(j)
}

// watch runs watchQuota until it is stopped.
func (d *Dispatcher) watch(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { d.watchQuota(ctx) })
	return func() {
		cancel()
		watching.Wait()
	}
}

// watchQuota interrupts calls while there are too many messages and no further ones come, until ctx ends: the broker gives
// us no others before those that are held are settled, and a sink may take its time.
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

// newCalls begins another set of calls, all of which end with ctx.
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
