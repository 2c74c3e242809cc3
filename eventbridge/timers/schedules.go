package timers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/schedule"
)

// Cursor is how far the events of a Schedule are published.
type Cursor struct {
	Generation    int64
	Through       time.Time // the last due time that is settled, or the time from which the generation counts
	LastDue       time.Time
	LastPublished time.Time
	LastID        string
	Published     int64
	Missed        int64
	Revision      uint64 // 0: not stored, or not known
}

// cursors is the part of the Store that keeps the cursors of Schedules, by their UIDs.
type cursors interface {
	// Cursor reads a cursor; that of a Schedule without one is zero.
	Cursor(ctx context.Context, uid string) (Cursor, error)
	// StoreCursor stores a cursor in place of the one with its Revision, and returns it with the new one. The error is
	// failure.ErrOvertaken when another one is stored.
	StoreCursor(ctx context.Context, uid string, cursor Cursor) (Cursor, error)
	// WatchCursors calls apply with cursors that are being stored, without a Revision, one at a time, until ctx ends.
	WatchCursors(ctx context.Context, apply func(uid string, cursor Cursor)) error
	// AnnounceAhead wakes those who subscribe to an event that will be published soon.
	AnnounceAhead(source, eventType string) error
}

// schedules publishes the events of Schedules.
type schedules struct {
	timers *Timers
	alarms *alarms
	log    logr.Logger

	mu     sync.Mutex
	known  map[string]*entry // by UID
	byName map[types.NamespacedName]*v1alpha1.Schedule
}

// entry is a Schedule that holds.
type entry struct {
	schedule *v1alpha1.Schedule
	plan     schedule.Plan
	seen     time.Time // when this generation was seen first, by the server's clock

	working  bool // a worker has it
	read     bool // the cursor is known
	cursor   Cursor
	failures int
}

func newSchedules(t *Timers) *schedules {
	return &schedules{
		timers: t, alarms: newAlarms(t.now, t.peers.patience), log: t.deps.Log.WithName("schedules"),
		known: map[string]*entry{}, byName: map[types.NamespacedName]*v1alpha1.Schedule{},
	}
}

func (s *schedules) start(ctx context.Context, running *sync.WaitGroup) {
	if s.timers.deps.Schedules == nil {
		return
	}
	running.Go(func() { s.alarms.run(ctx, s.work) })
	running.Go(func() {
		s.timers.persist(ctx, "watch Schedules", func(ctx context.Context) error { return s.timers.deps.Schedules.Watch(ctx, s.apply) })
	})
	running.Go(func() {
		s.timers.persist(ctx, "watch the cursors of Schedules", func(ctx context.Context) error { return s.timers.deps.Store.WatchCursors(ctx, s.hear) })
	})
}

// apply follows the Schedules that hold.
func (s *schedules) apply(all []*v1alpha1.Schedule) {
	wanted := s.holding(all)
	now := s.timers.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.byName)
	for _, each := range all {
		s.byName[types.NamespacedName{Namespace: each.Namespace, Name: each.Name}] = each
	}
	for uid, e := range wanted {
		current := s.known[uid]
		if current == nil {
			e.seen = now
			s.known[uid] = e
			s.alarms.again(uid, now)
			continue
		}
		if current.schedule.Generation != e.schedule.Generation {
			current.seen = now
			s.alarms.again(uid, now)
		}
		current.schedule, current.plan = e.schedule, e.plan
	}
	for uid := range s.known {
		if wanted[uid] == nil {
			delete(s.known, uid)
			s.alarms.drop(uid)
		}
	}
	s.timers.metrics.schedules.Set(float64(len(s.known)))
}

// holding returns the Schedules that are valid, within the share of their namespace, and not paused.
func (s *schedules) holding(all []*v1alpha1.Schedule) map[string]*entry {
	namespaces := map[string][]*v1alpha1.Schedule{}
	for _, each := range all {
		namespaces[each.Namespace] = append(namespaces[each.Namespace], each)
	}
	wanted := map[string]*entry{}
	for _, of := range namespaces {
		over := s.timers.options.Share.Over(of)
		for _, each := range of {
			plan, err := schedule.New(each)
			if _, exceeds := over[string(each.UID)]; err == nil && !exceeds && !plan.Paused && each.DeletionTimestamp == nil {
				wanted[string(each.UID)] = &entry{schedule: each, plan: plan}
			}
		}
	}
	return wanted
}

// hear takes over what another bridge has published.
func (s *schedules) hear(uid string, heard Cursor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.known[uid]; e != nil && e.read && !e.working && supersedes(heard, e.cursor) {
		e.cursor = heard
	}
}

func supersedes(a, b Cursor) bool {
	return a.Generation > b.Generation || a.Generation == b.Generation && a.Through.After(b.Through)
}

// work has a worker act on a Schedule, one at a time.
func (s *schedules) work(uid string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.known[uid]
	if e == nil {
		return
	}
	if e.working {
		s.alarms.again(uid, s.timers.now().Add(backoff(0)))
		return
	}
	e.working = true
	task := *e
	s.timers.crew.do(e.schedule.Namespace, func(ctx context.Context) { s.settle(ctx, uid, &task) })
}

// settle publishes what is due of a Schedule, and sets its next alarm.
func (s *schedules) settle(ctx context.Context, uid string, task *entry) {
	next, err := s.act(ctx, uid, task)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.known[uid]
	if e == nil {
		return
	}
	e.working, e.read, e.cursor, e.failures = false, task.read, task.cursor, 0
	switch {
	case err != nil:
		if e.failures = task.failures + 1; ctx.Err() == nil {
			s.log.V(1).Info("cannot publish the events of a Schedule yet", "namespace", e.schedule.Namespace, "schedule", e.schedule.Name, "reason", err.Error())
		}
		s.alarms.again(uid, s.timers.now().Add(backoff(task.failures)))
	case e.schedule.Generation != task.schedule.Generation:
		s.alarms.again(uid, s.timers.now())
	case !next.IsZero():
		s.setAlarm(uid, e, next)
	}
}

// aheadInterval is between announcements that an event will be published.
const aheadInterval = time.Second

// setAlarm sets the alarm of the next event, or one at which its subscribers are woken.
func (s *schedules) setAlarm(uid string, e *entry, next time.Time) {
	if ahead := next.Add(-e.plan.WakeAhead); e.plan.WakeAhead > 0 {
		now := s.timers.now()
		if !now.Before(ahead) {
			ahead = now.Add(aheadInterval)
		}
		next = minTime(next, ahead)
	}
	s.alarms.set(uid, next)
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// act publishes what is due, and returns when something is due next.
func (s *schedules) act(ctx context.Context, uid string, e *entry) (next time.Time, err error) {
	store := s.timers.deps.Store
	if !e.read {
		if e.cursor, err = store.Cursor(ctx, uid); err != nil {
			return next, err
		}
		e.read = true
	}
	begun := e.cursor.Generation != e.schedule.Generation
	if begun {
		e.cursor.Through, e.cursor.Generation = countsFrom(e.schedule, e.cursor, e.seen), e.schedule.Generation
	}
	now := s.timers.now()
	decision := e.plan.Decide(e.cursor.Through, now)
	patience := s.timers.peers.patience(uid)
	if len(decision.Ticks) > 0 && now.Sub(decision.Ticks[0].At) < patience {
		return decision.Ticks[0].At, nil // another bridge comes first
	}
	if len(decision.Ticks) == 0 && decision.Missed == 0 {
		s.wakeAhead(e, decision.Next, now, patience)
		if begun && patience == 0 {
			e.cursor, err = s.store(ctx, uid, e.cursor, 0, 0)
		}
		return decision.Next, err
	}
	before := e.cursor.Through
	published, missed, err := s.publish(ctx, e, decision)
	if err == nil {
		e.cursor.Through, missed = decision.Through, missed+int64(decision.Missed)
	}
	if !e.cursor.Through.Equal(before) {
		s.timers.metrics.missed.WithLabelValues(e.schedule.Namespace).Add(float64(missed))
		stored, storeErr := s.store(ctx, uid, e.cursor, published, missed)
		e.cursor = stored
		err = errors.Join(err, storeErr)
	}
	return decision.Next, err
}

// countsFrom is the time after which a Schedule's due times count for a generation that no cursor is of.
func countsFrom(s *v1alpha1.Schedule, cursor Cursor, seen time.Time) time.Time {
	switch {
	case cursor.Generation != 0: // it was changed
		return seen
	case s.Status.LastDue != nil && s.Status.ObservedGeneration == s.Generation: // the cursor is lost
		return s.Status.LastDue.Time
	case s.Generation <= 1:
		return s.CreationTimestamp.Time
	default:
		return seen
	}
}

// wakeAhead announces the next event, if that is near.
func (s *schedules) wakeAhead(e *entry, next, now time.Time, patience time.Duration) {
	if e.plan.WakeAhead == 0 || patience > 0 || next.IsZero() || now.Before(next.Add(-e.plan.WakeAhead)) {
		return
	}
	ev := schedule.Event(e.schedule, schedule.Tick{Due: next})
	err := s.timers.deps.Allow(e.schedule.Namespace, ev)
	if err == nil {
		err = s.timers.deps.Store.AnnounceAhead(ev.Source, ev.Type)
	}
	if err != nil {
		s.log.V(1).Info("cannot announce an event ahead", "namespace", e.schedule.Namespace, "schedule", e.schedule.Name, "reason", err.Error())
	}
}

// publish publishes the ticks of a decision in their order, and moves the cursor with each. Those that may not be published are missed; the
// controller reports why.
func (s *schedules) publish(ctx context.Context, e *entry, decision schedule.Decision) (published, missed int64, err error) {
	for _, tick := range decision.Ticks {
		ev := schedule.Event(e.schedule, tick)
		switch err := s.timers.publish(ctx, e.schedule.Namespace, ev); {
		case errors.Is(err, ErrForbidden):
			missed++
		case err != nil:
			return published, missed, err
		default:
			published++
			now := s.timers.now()
			e.cursor.LastDue, e.cursor.LastPublished, e.cursor.LastID = tick.Due, now, ev.ID
			s.timers.metrics.scheduled(e.schedule.Namespace, now.Sub(tick.At))
		}
		e.cursor.Through = tick.Due
	}
	return published, missed, nil
}

// storeTries bounds how often a cursor is stored that others overtake.
const storeTries = 3

// store adds to the counts of the stored cursor, and stores it. Where another bridge has stored a later one, that is kept.
func (s *schedules) store(ctx context.Context, uid string, cursor Cursor, published, missed int64) (Cursor, error) {
	cursor.Published, cursor.Missed = cursor.Published+published, cursor.Missed+missed
	for try := 0; ; try++ {
		stored, err := s.timers.deps.Store.StoreCursor(ctx, uid, cursor)
		if !errors.Is(err, failure.ErrOvertaken) || try == storeTries {
			return stored, err
		}
		current, err := s.timers.deps.Store.Cursor(ctx, uid)
		if err != nil {
			return cursor, err
		}
		if !supersedes(cursor, current) {
			return current, nil
		}
		cursor.Revision = current.Revision
		cursor.Published, cursor.Missed = current.Published+published, current.Missed+missed
	}
}

// ErrNoSchedule means that there is no Schedule of a name.
var ErrNoSchedule = errors.New("no such Schedule")

// RunSchedule publishes the event of a Schedule now, whatever its times, and returns the event's id.
func (t *Timers) RunSchedule(ctx context.Context, name types.NamespacedName) (id string, err error) {
	t.schedules.mu.Lock()
	found := t.schedules.byName[name]
	t.schedules.mu.Unlock()
	if found == nil {
		return "", ErrNoSchedule
	}
	if err := schedule.CheckEvent(found); err != nil {
		return "", &failure.InvalidEventError{Reason: err.Error()}
	}
	ev := schedule.ManualEvent(found, t.now())
	return ev.ID, t.publish(ctx, name.Namespace, ev)
}

// ScheduleState is a Schedule as this bridge knows it.
type ScheduleState struct {
	Schedule *v1alpha1.Schedule
	// Problem is why nothing is published, empty if that is not so.
	Problem string
	Cursor  Cursor
	// Next is when an event is due; zero: never.
	Next time.Time
}

// Schedules lists the Schedules of a namespace, or of all.
func (t *Timers) Schedules(namespace string) []ScheduleState {
	s := t.schedules
	now := t.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []ScheduleState
	for name, each := range s.byName {
		if namespace != "" && name.Namespace != namespace {
			continue
		}
		found := ScheduleState{Schedule: each}
		plan, err := schedule.New(each)
		holding := s.known[string(each.UID)]
		switch {
		case err != nil:
			found.Problem = err.Error()
		case plan.Paused:
			found.Problem = "it is paused"
		case holding == nil:
			found.Problem = "it exceeds the share of its namespace"
		default:
			found.Cursor = holding.cursor
			found.Next, _ = plan.Next(now)
		}
		all = append(all, found)
	}
	return all
}
