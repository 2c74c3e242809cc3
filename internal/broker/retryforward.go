package broker

import (
	"context"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// handTime is the longest remaining delay of a retry that a bridge holds until it is due. It is much shorter than
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
	running.Go(func() { f.clock.Keep(ctx) })
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
	clock     *ServerClock
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
	return &forwarder{conn: c, consumers: newTargetCache(find), clock: NewServerClock(c)}
}

// run handles the retries of one consumer until ctx ends, and returns when nothing is in hand.
func (f *forwarder) run(ctx context.Context, consumer string, handle func(context.Context, *fairQueue, *Message)) {
	l := newFairQueue()
	defer l.running.Wait()
	select {
	case <-f.clock.Ready():
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
		wait := next.Sub(f.clock.Now())
		switch {
		case wait <= 0:
			f.goOn(ctx, l, m, due)
		case wait <= handTime:
			f.after(ctx, l, m, wait, func() { f.goOn(ctx, l, m, due) })
		default:
			now := f.clock.Now()
			f.after(ctx, l, m, now.Truncate(returnRound).Add(returnRound).Sub(now), func() {
				f.settled(m, m.Return(ctx, next.Sub(f.clock.Now())-retryUnit))
			})
		}
	}
}

// goOn has a retry wait for the rest of its delay, or brings it back.
func (f *forwarder) goOn(ctx context.Context, l *fairQueue, m *Message, due time.Time) {
	deliver := func(ctx context.Context) { f.deliver(ctx, m) }
	switch rest := due.Sub(f.clock.Now()); {
	case rest <= 0:
		f.work(ctx, l, m, deliver)
	case rest < retryUnit:
		f.after(ctx, l, m, rest, func() { f.work(ctx, l, m, deliver) })
	default:
		f.work(ctx, l, m, func(ctx context.Context) { f.move(ctx, m, due.Sub(f.clock.Now()), due) })
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

// fairQueue works on what a bridge has in hand of one level: maxForwards at a time, and round robin for the namespaces that have
// more in hand. It never has more than the level's consumer shows.
type fairQueue struct {
	running sync.WaitGroup

	mu      sync.Mutex
	busy    int
	queues  map[string][]func() // by namespace
	waiting []string            // namespaces that wait, the next one first
}

func newFairQueue() *fairQueue { return &fairQueue{queues: map[string][]func(){}} }

// do has the work done soon.
func (l *fairQueue) do(namespace string, work func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy < maxForwards {
		l.busy++
		l.running.Go(func() { l.work(work) })
		return
	}
	if len(l.queues[namespace]) == 0 {
		l.waiting = append(l.waiting, namespace)
	}
	l.queues[namespace] = append(l.queues[namespace], work)
}

// work goes on until nothing waits.
func (l *fairQueue) work(work func()) {
	for ; work != nil; work = l.next() {
		work()
	}
}

func (l *fairQueue) next() func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.busy--
		return nil
	}
	namespace := l.waiting[0]
	l.waiting = l.waiting[1:]
	queue := l.queues[namespace]
	if len(queue) == 1 {
		delete(l.queues, namespace)
	} else {
		l.queues[namespace] = queue[1:]
		l.waiting = append(l.waiting, namespace)
	}
	return queue[0]
}

const (
	// oldRetryPrefix is where versions before levels of delay keep retries: rouse.retry.<namespace>.<name>, due at a time of
	// the bridge's clock. While bridges are replaced both forms come.
	oldRetryPrefix = "rouse.retry"
	// maxOldRetries is how many of them such a version has in view.
	maxOldRetries = 20_000
)

func (c *Conn) ensureOldRetryConsumer(ctx context.Context) error {
	return c.EnsureConsumer(ctx, RetryStream, Consumer{
		Name:          retryConsumer,
		Description:   "brings on retries of versions from before levels of delay",
		Subjects:      []string{oldRetryPrefix + ".>"},
		StartFrom:     StartFrom{Policy: StartAll},
		AckWait:       retryAckWait,
		MaxAckPending: maxOldRetries,
	})
}

// handleOld moves a retry of an earlier version into a level, so none of them waits for others.
func (f *forwarder) handleOld(ctx context.Context, l *fairQueue, m *Message) {
	f.work(ctx, l, m, func(ctx context.Context) {
		var wait time.Duration
		if due, err := strconv.ParseInt(m.raw.Header.Get(headerDue), 10, 64); err == nil {
			wait = min(max(time.Unix(0, due).Sub(f.clock.Now()), 0), MaxRetryDelay)
		}
		f.move(ctx, m, wait, f.clock.Now().Add(wait))
	})
}
