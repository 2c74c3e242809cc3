package dispatch

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/flags"
)

// Subscription is the namespace and the name of a Subscription.
type Subscription struct{ Namespace, Name string }

// String returns namespace/name.
func (s Subscription) String() string { return s.Namespace + "/" + s.Name }

// HoldLimit returns how many concurrent deliveries a replica may have, and how many messages its Source may hold in
// addition.
type HoldLimit func() (deliveries, ahead int)

// Deps are the dependencies of a Dispatcher.
type Deps struct {
	Subscription Subscription
	MaxInFlight  int       // at least 1
	Limit        HoldLimit // this replica's part of MaxInFlight; nil: all of it
	Source       Source
	Gate         Gate
	Sink         Sink
	Filter       Filter  // nil accepts every event
	Replies      Replies // nil ignores replies
	Chain        Chain   // nil limits only the length of chains
	Quota        Quota   // nil never limits the number of waiting events
	Tracer       Tracer  // nil creates no spans
	Metrics      *Metrics
	Observe      func(msg Message, ev *cloudevent.Event, a Answer, took time.Duration) // called after each attempt; may be nil
	Settled      func(msg Message, s Settled)                                          // called after each settlement; may be nil
	BoundDrain   <-chan struct{}                                                       // DrainTimeout starts when it is closed; nil starts it with the drain
	Retries      func() (maxAttempts int, backoff Backoff)                             // current retry policy; nil: the Options'
	Log          logr.Logger
}

// Dispatcher delivers the messages of one Subscription.
type Dispatcher struct {
	Deps
	options   Options
	policy    policy
	series    series
	scheduler *scheduler
	held      *inFlight
	limits    limits
	// unanswered are the calls that may be detached; nil when none may.
	unanswered *unanswered
	work       context.Context //nolint:containedctx // context of all deliveries, from Run to the end of the drain
	workers    *workers
}

// The pauses between failed attempts to receive, and the timeout of a settlement.
const (
	receiveBackoffBase = 100 * time.Millisecond
	receiveBackoffMax  = 2 * time.Second
	settleTimeout      = 10 * time.Second
)

// New returns a Dispatcher; Run starts it.
func New(deps Deps, options Options) *Dispatcher {
	deps.MaxInFlight = max(min(deps.MaxInFlight, options.MaxInFlight), 1)
	d := &Dispatcher{
		Deps:      deps,
		options:   options,
		policy:    policy{maxAttempts: options.MaxAttempts, endless: options.Endless, backoff: options.Backoff, shortDelay: options.ShortDelay},
		series:    series{metrics: deps.Metrics, of: deps.Subscription},
		scheduler: newScheduler(deps.MaxInFlight, options.EventsPerSecond, deps.Limit),
		limits:    limits{slots: make(chan struct{}, maxOverLimit)},
	}
	d.workers = &workers{run: func(j *job) { d.deliver(d.limits.calls.Load().ctx, j) }}
	d.scheduler.start = d.workers.start
	if after := detachAfter(options, deps.MaxInFlight); after > 0 {
		d.unanswered = &unanswered{after: after, most: deps.MaxInFlight, detach: d.detach}
	}
	d.held = newInFlight(options.AckWait/2, func(err error) {
		d.Log.V(1).Info("cannot extend a message", "reason", err.Error())
	})
	return d
}

// Run delivers until ctx ends, drains, and returns when every message it held is settled.
func (d *Dispatcher) Run(ctx context.Context) {
	work, interrupt := context.WithCancel(context.WithoutCancel(ctx))
	defer interrupt()
	d.work = work
	d.limits.calls.Store(newCalls(work))
	if d.Quota != nil {
		defer d.watch(work)() // until the end of the drain: the next replica that receives waits for what our calls hold
	}
	d.receive(ctx)
	d.giveBack(work, d.scheduler.clear(true))
	d.drain(interrupt)
	if d.unanswered != nil {
		d.unanswered.stop()
	}
	d.held.stop()
}

// receive takes messages until ctx ends: while the gate is open, and those over a limit also while it is closed.
// Ordered messages are returned whenever receiving ends, because another replica may continue with them.
func (d *Dispatcher) receive(ctx context.Context) {
	backoff := Backoff{Base: receiveBackoffBase, Max: receiveBackoffMax, Jitter: 0.2}
	failures := 0
	for {
		closed, open, err := d.awaitWork(ctx)
		if err != nil {
			return
		}
		if open {
			err = d.receiveUntil(ctx, closed)
		} else {
			err = d.shed(ctx, closed)
		}
		if ctx.Err() != nil {
			return
		}
		if isClosed(closed) || d.options.OrderedBy != "" {
			d.giveBack(ctx, d.scheduler.clear(false))
		}
		if err == nil {
			failures = 0
			continue
		}
		d.Metrics.receiveErrors.WithLabelValues(d.Subscription.Namespace, d.Subscription.Name).Inc()
		if failures++; failures == 1 { // once per outage
			d.Log.Info("cannot receive messages, retrying", "reason", err.Error())
		}
		if !sleep(ctx, backoff.Delay(failures, 0, random())) {
			return
		}
	}
}

// receiveUntil receives until the gate closes or, in ordered delivery, until a message is lost to another replica.
func (d *Dispatcher) receiveUntil(ctx context.Context, closed <-chan struct{}) error {
	if d.options.OrderedBy == "" {
		return d.Source.Receive(ctx, closed, d.accept)
	}
	received, stop := make(chan struct{}), make(chan struct{})
	var waits sync.WaitGroup
	waits.Go(func() {
		defer close(stop)
		select {
		case <-closed:
		case <-d.scheduler.haltSignal():
		case <-received:
		}
	})
	defer waits.Wait()
	defer close(received)
	return d.Source.Receive(ctx, stop, d.accept)
}

// accept queues one message. Its key is read at once, because it decides the order.
func (d *Dispatcher) accept(msg Message) {
	if d.limited() {
		d.limits.received.Add(1)
		if over := d.over(msg); over != "" {
			d.startOverLimit(msg, over)
			return
		}
	}
	d.held.add(msg)
	d.series.get().inFlight.Inc()
	j := &job{Message: msg, attempt: msg.Attempt()}
	if d.options.OrderedBy != "" {
		j.key = d.keyOf(msg)
	}
	if !d.scheduler.add(j) {
		d.giveBack(context.Background(), []*job{j})
	}
}

// giveBack returns messages that were not started, for a prompt redelivery to any replica.
func (d *Dispatcher) giveBack(ctx context.Context, jobs []*job) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	for _, j := range jobs {
		if err := j.Return(ctx, 0); err != nil {
			d.Log.V(1).Info("cannot return a message", "reason", err.Error())
		}
		d.release(j)
	}
}

// release ends the hold on a message.
func (d *Dispatcher) release(j *job) {
	d.held.remove(j.Message)
	d.series.get().inFlight.Dec()
	if j.over != "" {
		<-d.limits.slots
	}
	if j.detached {
		d.series.get().detached.Dec()
		d.unanswered.free()
	}
	j.Release()
}

// drain waits for the workers. Once BoundDrain is closed, it interrupts those that exceed DrainTimeout.
func (d *Dispatcher) drain(interrupt context.CancelFunc) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.workers.wait()
	}()
	if d.BoundDrain != nil {
		select {
		case <-done:
		case <-d.BoundDrain:
		}
	}
	timeout := time.NewTimer(d.options.DrainTimeout)
	defer timeout.Stop()
	select {
	case <-done:
	case <-timeout.C:
		d.Log.Info("drain timed out, interrupting deliveries", "count", d.held.count())
		interrupt()
		<-done
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// sleep returns false when ctx ended first.
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

// Options are the limits of delivery. Those of the process apply to Subscriptions that set none.
type Options struct {
	MaxInFlight  int           // upper bound of what Subscriptions request
	MaxAttempts  int           // attempts before an event becomes a dead letter
	Backoff      Backoff       // wait after a failed attempt
	ShortDelay   time.Duration // wait after an attempt that did not reach the sink
	AckWait      time.Duration // the broker redelivers a message that is not extended for this long
	DrainTimeout time.Duration // bounds how long running deliveries may take after ctx ended
	Timeout      time.Duration // of a call of the sink, which is detached after a part of it; 0 disables detaching
	MaxHops      int           // maximum length of a chain of events that cause each other
	MaxCaused    int           // maximum number of events of a chain, with all branches, per namespace
	Endless      bool          // no dead letters: events are retried forever

	EventsPerSecond int           // deliveries per second, 0 for no limit
	TTL             time.Duration // age at which an event becomes a dead letter without another attempt, 0 for no limit
	OrderedBy       string        // attribute by which events are ordered, empty for no order
}

// DefaultOptions makes 16 attempts within about half an hour.
func DefaultOptions() Options {
	return Options{
		MaxInFlight:  1000,
		MaxAttempts:  16,
		Backoff:      Backoff{Base: 500 * time.Millisecond, Max: 5 * time.Minute, Jitter: 0.2},
		ShortDelay:   250 * time.Millisecond,
		AckWait:      30 * time.Second,
		DrainTimeout: 30 * time.Second,
		MaxHops:      32,
		MaxCaused:    10_000,
	}
}

// Flags declares the --delivery-* flags.
func (o *Options) Flags(fs *flags.Set) {
	fs.Int(&o.MaxInFlight, "delivery-max-in-flight",
		"maximum concurrent deliveries of one Subscription, whatever it requests").AtLeast(1)
	fs.Int(&o.MaxAttempts, "delivery-max-attempts",
		"attempts after which an event that its sink keeps failing becomes a dead letter").AtLeast(1)
	fs.Duration(&o.Backoff.Base, "delivery-backoff", "wait after the first failed attempt; it doubles with each further one").MoreThan(0)
	fs.Duration(&o.Backoff.Max, "delivery-backoff-max",
		"longest wait between attempts, also if the sink requests more with Retry-After").AtLeast(o.Backoff.Base)
	fs.Duration(&o.AckWait, "delivery-ack-wait",
		"AckWait of the consumers; running deliveries are extended twice as often").AtLeast(time.Second)
	fs.Duration(&o.DrainTimeout, "delivery-drain-timeout", "how long running deliveries may finish when the process stops").AtLeast(0)
	fs.Int(&o.MaxHops, "delivery-max-hops",
		"longest chain of events that cause each other, by replies or emitted; an event beyond it becomes a dead letter").AtLeast(1)
	fs.Int(&o.MaxCaused, "delivery-max-caused",
		"events that one event may cause in all, by replies or emitted, per namespace and replica; "+
			"beyond that an event with a reply becomes a dead letter, and an emitted one is refused").AtLeast(1)
}
