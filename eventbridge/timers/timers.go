package timers

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/daemon"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/schedule"
)

// Schedules lists the Schedules.
type Schedules interface {
	// Watch calls apply with the full list, at once and after each change, one call at a time, until ctx ends. Nobody changes
	// what is in it.
	Watch(ctx context.Context, apply func([]*v1alpha1.Schedule)) error
}

// Store keeps cursors and delayed events, and connects the bridges. Its errors are or wrap those of package failure.
type Store interface {
	cursors
	delays
	delayedList
	beats
	serverClock

	// OnConnect registers f, which is called after each connect.
	OnConnect(f func())
}

// serverClock is the time of the Store.
type serverClock interface {
	// Clock runs the clock until ctx ends, and Now returns its time, or false before it is known.
	Clock(ctx context.Context)
	Now() (time.Time, bool)
}

// beats is the part of the Store that connects the bridges.
type beats interface {
	// Beat sends a beat, and WatchBeats calls apply with those of all bridges, one at a time, until ctx ends.
	Beat(id string, data []byte) error
	WatchBeats(ctx context.Context, apply func(id string, data []byte)) error
}

// Deps are the dependencies of Timers.
type Deps struct {
	Schedules Schedules // nil: there are none
	Store     Store
	// ID distinguishes this bridge from all others.
	ID string
	// Publish stores an event.
	Publish func(ctx context.Context, ev *cloudevent.Event) error
	// Allow returns an error for an event that a namespace may not publish, and sets the Publisher of others.
	Allow      func(namespace string, ev *cloudevent.Event) error
	Registerer prometheus.Registerer
	Log        logr.Logger
}

// Options bound what is due.
type Options struct {
	Share    schedule.Share
	MaxDelay time.Duration // of delayed events
}

const (
	defaultMaxDelay = 366 * 24 * time.Hour
	mostMaxDelay    = 10 * defaultMaxDelay
)

// DefaultOptions returns the chart's defaults.
func DefaultOptions() Options {
	return Options{Share: schedule.DefaultShare(), MaxDelay: defaultMaxDelay}
}

// Flags implements flags.Options.
func (o *Options) Flags(fs *flags.Set) {
	fs.Duration(&o.MaxDelay, "publish-max-delay", "how much later than it is published an event may be due").Between(time.Second, mostMaxDelay)
	fs.Add(&o.Share)
}

// Timers publish what is due.
type Timers struct {
	deps      Deps
	options   Options
	metrics   *metrics
	peers     *peers
	crew      *crew
	schedules *schedules
	delayed   *delayed
	done      doneList
}

// New returns Timers; Run starts them.
func New(deps Deps, options Options) *Timers {
	t := &Timers{deps: deps, options: options, metrics: newMetrics(deps.Registerer), peers: newPeers(deps.ID), crew: newCrew()}
	t.schedules = newSchedules(t)
	t.delayed = newDelayed(t)
	return t
}

// now is the server's time. Before that is known nothing is due, so that any time will do.
func (t *Timers) now() time.Time {
	now, _ := t.deps.Store.Now()
	return now
}

// Run publishes what is due until ctx ends, and returns when the work in progress is done.
func (t *Timers) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { t.deps.Store.Clock(ctx) })
	running.Go(func() { t.persist(ctx, "hear of other bridges", t.hear) })
	running.Go(func() { t.beat(ctx) })
	if !t.awaitTime(ctx) {
		return nil
	}
	running.Go(func() { t.crew.run(ctx) })
	t.schedules.start(ctx, &running)
	t.delayed.start(ctx, &running)
	return nil
}

const (
	timeInterval = 10 * time.Millisecond
	// retryInterval is between tries to follow what has to be followed.
	retryInterval = time.Second
)

// awaitTime waits until the server's time is known.
func (t *Timers) awaitTime(ctx context.Context) bool {
	for {
		if _, known := t.deps.Store.Now(); known {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(timeInterval):
		}
	}
}

// persist runs follow until ctx ends, and again when it returns.
func (t *Timers) persist(ctx context.Context, what string, follow func(context.Context) error) {
	daemon.Persist(ctx, t.deps.Log, what, retryInterval, follow)
}

// hear follows the beats of other bridges.
func (t *Timers) hear(ctx context.Context) error {
	return t.deps.Store.WatchBeats(ctx, func(id string, data []byte) {
		heard, changed := t.peers.hear(id, data, time.Now())
		for _, each := range heard.Done {
			t.delayed.forget(each)
		}
		if changed {
			t.reorder()
		}
	})
}

func (t *Timers) reorder() {
	t.schedules.alarms.reorder()
	t.delayed.alarms.reorder()
}

// doneInterval is how long a delayed event that is published waits at most before others hear of it, if this bridge publishes few.
const doneInterval = 20 * time.Millisecond

// beat shows that this bridge lives, and what it has done, until ctx ends.
func (t *Timers) beat(ctx context.Context) {
	ticker := time.NewTicker(doneInterval)
	defer ticker.Stop()
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			t.say(beat{Leaving: true})
			return
		case <-ticker.C:
		}
		for more := true; more; {
			var done []string
			if done, more = t.done.take(); len(done) > 0 || time.Since(last) >= beatInterval {
				t.say(beat{Done: done})
				last = time.Now()
			}
		}
		if t.peers.expire(time.Now()) {
			t.reorder()
		}
	}
}

func (t *Timers) say(b beat) {
	data, err := json.Marshal(b)
	if err == nil {
		err = t.deps.Store.Beat(t.deps.ID, data)
	}
	if err != nil {
		t.deps.Log.V(1).Info("cannot send a beat", "reason", err.Error())
	}
}

// publish allows and stores an event in the name of a namespace. ErrForbidden means that it may not.
func (t *Timers) publish(ctx context.Context, namespace string, ev *cloudevent.Event) error {
	if err := t.deps.Allow(namespace, ev); err != nil {
		return errors.Join(ErrForbidden, err)
	}
	return t.deps.Publish(ctx, ev)
}

// ErrForbidden means that the rules of publishers do not let the namespace of a Schedule publish its event.
var ErrForbidden = errors.New("the namespace may not publish the event")

// backoff is the wait after a number of failures.
func backoff(failures int) time.Duration {
	const first, last = 50 * time.Millisecond, 10 * time.Second
	return min(first<<min(failures, 10), last)
}
