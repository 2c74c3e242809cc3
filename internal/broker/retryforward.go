package broker

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// handTime is how soon a retry has to go on for a bridge to keep it in hand until then. It is much shorter than
	// retryAckWait. What is further away is left to the server, which sends it again a retryUnit before.
	handTime = 4 * retryUnit
	// returnRound is between the moments at which all bridges give back what is further away. Each delayed negative
	// acknowledgement restarts the timer by which the server sends messages again: if they came all the time, it never would.
	returnRound = 2 * retryUnit
	// maxForwards of a level at a time, so that those of one do not use up those of another.
	maxForwards = 64
	// fetchSize is how many retries of a level a bridge asks for at a time.
	fetchSize = 128
)

// ForwardRetries brings events back to their consumers when they are due, until ctx
// ends. Any number of processes may do so at the same time. Each level of delay has a budget of
// its own for the events that are in hand.
func (c *Conn) ForwardRetries(ctx context.Context, stream string, budget func(level string) MemoryBudget) {
	f := newForwarder(c, stream)
	f.budget = budget
	var running sync.WaitGroup
	running.Go(func() { f.clock.keep(ctx, c) })
	for level := range lastRetryLevel + 1 {
		running.Go(func() { f.run(ctx, level.consumer(), f.handlerFor(level)) })
	}
	running.Go(func() { f.run(ctx, retryConsumer, f.handleOld) })
	running.Wait()
}

// forwarder moves retries on.
type forwarder struct {
	conn      *Conn
	consumers *targetCache
	clock     *serverClock
	budget    func(level string) MemoryBudget

	mu       sync.Mutex
	orphans  int       // dropped since they were logged last
	loggedAt time.Time // of orphans
}

func newForwarder(c *Conn, stream string) *forwarder {
	find := func(ctx context.Context, consumer string) (redeliveryTarget, error) {
		info, err := c.redeliveryInfo(ctx, stream, consumer)
		if err != nil {
			return redeliveryTarget{}, err
		}
		return redeliveryTarget{since: info.Created, uid: info.Config.Metadata[MetadataUID]}, nil
	}
	return &forwarder{conn: c, consumers: newTargetCache(find), clock: newServerClock()}
}

// run handles the retries of one consumer until ctx ends, and returns when nothing is in hand.
func (f *forwarder) run(ctx context.Context, consumer string, handle func(context.Context, *fairQueue, *Message)) {
	l := newFairQueue()
	defer l.running.Wait()
	select {
	case <-f.clock.ready:
	case <-ctx.Done():
	}
	source := NewSource(f.conn, RetryStream, consumer, types.NamespacedName{}, fetchSize/2).Within(f.budget(consumer))
	for ctx.Err() == nil {
		err := source.Receive(ctx, nil, func(m *Message) { handle(ctx, l, m) })
		if err != nil && !isAny(err, ErrNotConnected, ErrConsumerNotFound) {
			f.conn.log.Info("cannot forward retries, trying again", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// handlerFor returns the handler of a level: it keeps in hand what goes on soon, and returns the rest to the server until
// shortly before.
func (f *forwarder) handlerFor(level retryLevel) func(context.Context, *fairQueue, *Message) {
	return func(ctx context.Context, l *fairQueue, m *Message) {
		due, next := level.schedule(m.metadata.Timestamp, m.raw.Header)
		wait := next.Sub(f.clock.now())
		switch {
		case wait <= 0:
			f.goOn(ctx, l, m, due)
		case wait <= handTime:
			f.after(ctx, l, m, wait, func() { f.goOn(ctx, l, m, due) })
		default:
			now := f.clock.now()
			f.after(ctx, l, m, now.Truncate(returnRound).Add(returnRound).Sub(now), func() {
				f.settled(m, m.Return(ctx, next.Sub(f.clock.now())-retryUnit))
			})
		}
	}
}

// goOn has a retry wait for the rest of its delay, or brings it back.
func (f *forwarder) goOn(ctx context.Context, l *fairQueue, m *Message, due time.Time) {
	deliver := func(ctx context.Context) { f.deliver(ctx, m) }
	switch rest := due.Sub(f.clock.now()); {
	case rest <= 0:
		f.work(ctx, l, m, deliver)
	case rest < retryUnit:
		f.after(ctx, l, m, rest, func() { f.work(ctx, l, m, deliver) })
	default:
		f.work(ctx, l, m, func(ctx context.Context) { f.move(ctx, m, due.Sub(f.clock.now()), due) })
	}
}

// after waits with a retry in hand, which goes back at once when ctx ends.
func (f *forwarder) after(ctx context.Context, l *fairQueue, m *Message, wait time.Duration, do func()) {
	l.running.Go(func() {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
			do()
		case <-ctx.Done():
			f.settled(m, m.Return(context.WithoutCancel(ctx), 0))
		}
	})
}

// work is done also when ctx has ended.
func (f *forwarder) work(ctx context.Context, l *fairQueue, m *Message, work func(context.Context)) {
	_, subscription := waitingOf(m.raw.Subject)
	l.do(subscription.Namespace, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		work(ctx)
	})
}
