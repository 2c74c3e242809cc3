package timers

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
)

// Delayed is an event that waits for its time, without its content.
type Delayed struct {
	ID        string
	Due       time.Time
	Namespace string // of the publisher, empty where it is not known
	Bytes     uint64
	Class     string // of the size, for the Store
}

// delays is the part of the Store that keeps delayed events. The errors for one that does not wait are failure.ErrNoDelayed.
type delays interface {
	// Delay stores an event for later. The error is failure.ErrDelayedOtherwise where it waits for another time.
	Delay(ctx context.Context, ev *cloudevent.Event, due time.Time) (Delayed, error)
	// DelayedID returns the ID of an event while it waits.
	DelayedID(ev *cloudevent.Event) (string, error)
	// LoadDelayed reads an event that waits.
	LoadDelayed(ctx context.Context, d Delayed) (*cloudevent.Event, error)
	// DeleteDelayed deletes it.
	DeleteDelayed(ctx context.Context, d Delayed) error
}

// delayedList is the part of the Store that knows what waits.
type delayedList interface {
	// DelayedEvents lists what waits.
	DelayedEvents(ctx context.Context) ([]Delayed, error)
	// DelayedRoom returns how many bytes and events may wait.
	DelayedRoom(ctx context.Context) (bytes uint64, events int, err error)
	// WatchDelayed calls apply with events that are being delayed, one at a time, until ctx ends.
	WatchDelayed(ctx context.Context, apply func(Delayed)) error
}

// delayed publishes delayed events.
type delayed struct {
	timers *Timers
	alarms *alarms
	log    logr.Logger
	resync chan struct{}

	mu     sync.Mutex
	room   room
	known  map[string]*waiting // by ID
	held   map[string]*room    // by namespace
	total  room
	round  uint64
	loaded bool
}

// room is what events take, or may take.
type room struct {
	bytes  uint64
	events int
}

// waiting is a delayed event.
type waiting struct {
	Delayed

	round     uint64 // the last list that had it, or during which it came
	failures  int
	published bool // it is still to be deleted
}

func newDelayed(t *Timers) *delayed {
	d := &delayed{
		timers: t, alarms: newAlarms(t.now, t.peers.patience), log: t.deps.Log.WithName("delayed"), resync: make(chan struct{}, 1),
		known: map[string]*waiting{}, held: map[string]*room{},
	}
	t.deps.Store.OnConnect(func() {
		select {
		case d.resync <- struct{}{}:
		default:
		}
	})
	return d
}

func (d *delayed) start(ctx context.Context, running *sync.WaitGroup) {
	running.Go(func() {
		d.timers.persist(ctx, "watch delayed events", func(ctx context.Context) error { return d.timers.deps.Store.WatchDelayed(ctx, d.add) })
	})
	running.Go(func() { d.alarms.run(ctx, d.work) })
	running.Go(func() { d.follow(ctx) })
}

const (
	// listInterval is between lists of what waits, which find what was not heard of, and listShare bounds the part of the time
	// that they take.
	listInterval = time.Minute
	listShare    = 20
)

// follow lists what waits after each connect and from time to time, until ctx ends.
func (d *delayed) follow(ctx context.Context) {
	for ctx.Err() == nil {
		began := time.Now()
		pause := listInterval
		if err := d.list(ctx); err != nil && ctx.Err() == nil {
			d.log.V(1).Info("cannot list delayed events, trying again", "reason", err.Error())
			pause = retryInterval
		}
		select {
		case <-ctx.Done():
		case <-d.resync:
		case <-time.After(max(pause, listShare*time.Since(began))):
		}
	}
}

// list takes over what the store has.
func (d *delayed) list(ctx context.Context) error {
	d.mu.Lock()
	d.round++
	d.mu.Unlock()
	bytes, events, err := d.timers.deps.Store.DelayedRoom(ctx)
	if err != nil {
		return err
	}
	all, err := d.timers.deps.Store.DelayedEvents(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		d.add(all[i])
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room, d.loaded = room{bytes: bytes, events: events}, true
	for id, w := range d.known {
		if w.round != d.round {
			d.remove(id)
		}
	}
	return nil
}

// add begins to wait for an event, unless it is known.
func (d *delayed) add(event Delayed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.known[event.ID]; w != nil {
		w.round = d.round
		return
	}
	d.known[event.ID] = &waiting{Delayed: event, round: d.round}
	held := d.held[event.Namespace]
	if held == nil {
		held = &room{}
		d.held[event.Namespace] = held
	}
	for _, sum := range []*room{held, &d.total} {
		sum.bytes += event.Bytes
		sum.events++
	}
	d.timers.metrics.waiting.Set(float64(d.total.events))
	d.alarms.set(event.ID, event.Due)
}

// forget ends the wait for an event that is published or cancelled.
func (d *delayed) forget(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.remove(id)
}

func (d *delayed) remove(id string) {
	w := d.known[id]
	if w == nil {
		return
	}
	delete(d.known, id)
	d.alarms.drop(id)
	held := d.held[w.Namespace]
	for _, sum := range []*room{held, &d.total} {
		sum.bytes -= w.Bytes
		sum.events--
	}
	if held.events == 0 {
		delete(d.held, w.Namespace)
	}
	d.timers.metrics.waiting.Set(float64(d.total.events))
}

// work has a worker publish an event.
func (d *delayed) work(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.known[id]; w != nil {
		task := *w
		d.timers.crew.do(w.Namespace, func(ctx context.Context) { d.settle(ctx, task) })
	}
}

// settle publishes an event and deletes it, or tries again later.
func (d *delayed) settle(ctx context.Context, w waiting) {
	err := d.publish(ctx, &w)
	if err == nil || errors.Is(err, failure.ErrNoDelayed) {
		d.forget(w.ID)
		return
	}
	if ctx.Err() == nil {
		d.log.V(1).Info("cannot publish a delayed event yet", "namespace", w.Namespace, "id", w.ID, "reason", err.Error())
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.known[w.ID]; known != nil {
		known.failures, known.published = w.failures+1, w.published
		d.alarms.again(w.ID, d.timers.now().Add(backoff(w.failures)))
	}
}

func (d *delayed) publish(ctx context.Context, w *waiting) error {
	store := d.timers.deps.Store
	if !w.published {
		ev, err := store.LoadDelayed(ctx, w.Delayed)
		if err != nil {
			return err
		}
		if err := d.timers.deps.Publish(ctx, ev); err != nil {
			return err
		}
		w.published = true
		d.timers.metrics.lateness.WithLabelValues("delayed").Observe(d.timers.now().Sub(w.Due).Seconds())
		d.timers.done.add(w.ID)
	}
	return store.DeleteDelayed(ctx, w.Delayed)
}

// pastIsNow is how long ago the due time of an event may be that is published now instead. An earlier one is a mistake.
const pastIsNow = 5 * time.Minute

// Delay stores an event that is due later. It is false for an event that is due now.
func (t *Timers) Delay(ctx context.Context, ev *cloudevent.Event, due time.Time) (Delayed, bool, error) {
	now, known := t.deps.Store.Now()
	if !known {
		return Delayed{}, true, failure.ErrNotConnected
	}
	switch wait := due.Sub(now); {
	case wait < -pastIsNow:
		return Delayed{}, true, &failure.InvalidEventError{Reason: "it is due at " + due.UTC().Format(time.RFC3339) + ", which is past"}
	case wait <= 0:
		return Delayed{}, false, nil
	case wait > t.options.MaxDelay:
		return Delayed{}, true, &failure.InvalidEventError{Reason: "it is due in " + wait.Round(time.Second).String() + ", the longest delay is " + t.options.MaxDelay.String()}
	}
	stored, err := t.delayed.store(ctx, ev, due.Truncate(time.Millisecond))
	return stored, true, err
}

func (d *delayed) store(ctx context.Context, ev *cloudevent.Event, due time.Time) (Delayed, error) {
	id, err := d.timers.deps.Store.DelayedID(ev)
	if err != nil {
		return Delayed{}, err
	}
	if waits, known, err := d.admit(id, ev, due); known || err != nil {
		return waits, err
	}
	stored, err := d.timers.deps.Store.Delay(ctx, ev, due)
	if err == nil {
		d.add(stored)
	}
	return stored, err
}

// admit returns the event if it waits already, or an error if its namespace has its share.
func (d *delayed) admit(id string, ev *cloudevent.Event, due time.Time) (waits Delayed, known bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.loaded {
		return Delayed{}, false, failure.ErrNotConnected
	}
	if w := d.known[id]; w != nil {
		if !w.Due.Equal(due) {
			return w.Delayed, true, failure.ErrDelayedOtherwise
		}
		return w.Delayed, true, nil
	}
	var own room
	if held := d.held[ev.Publisher]; held != nil && ev.Publisher != "" { // without rules for publishers there are no shares
		own = *held
	}
	free := room{bytes: left(d.room.bytes, d.total.bytes), events: max(d.room.events-d.total.events, 0)}
	if own.events >= free.events || own.bytes+uint64(len(ev.Data)) > free.bytes {
		return Delayed{}, false, failure.ErrDelayedShare
	}
	return Delayed{}, false, nil
}

func left(all, used uint64) uint64 {
	if used >= all {
		return 0
	}
	return min(all-used, math.MaxInt64)
}

// DelayedEvents lists the events of a namespace that wait, or of all.
func (t *Timers) DelayedEvents(namespace string) []Delayed {
	t.delayed.mu.Lock()
	defer t.delayed.mu.Unlock()
	var all []Delayed
	for _, w := range t.delayed.known {
		if namespace == "" || w.Namespace == namespace {
			all = append(all, w.Delayed)
		}
	}
	return all
}

// DelayedEvent reads one that waits in a namespace, or in any.
func (t *Timers) DelayedEvent(ctx context.Context, namespace, id string) (Delayed, *cloudevent.Event, error) {
	found, err := t.delayed.find(namespace, id)
	if err != nil {
		return found, nil, err
	}
	ev, err := t.deps.Store.LoadDelayed(ctx, found)
	return found, ev, err
}

// CancelDelayed deletes one before it is due.
func (t *Timers) CancelDelayed(ctx context.Context, namespace, id string) error {
	found, err := t.delayed.find(namespace, id)
	if err == nil {
		_, err = t.deps.Store.LoadDelayed(ctx, found)
	}
	if err == nil {
		err = t.deps.Store.DeleteDelayed(ctx, found)
	}
	if err == nil {
		t.delayed.forget(id)
		t.done.add(id)
	}
	return err
}

func (d *delayed) find(namespace, id string) (Delayed, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.known[id]
	if w == nil || namespace != "" && w.Namespace != namespace {
		return Delayed{}, failure.ErrNoDelayed
	}
	return w.Delayed, nil
}
