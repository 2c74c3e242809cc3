package timers_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
	"github.com/rouse-run/rouse/eventbridge/jetstream"
	"github.com/rouse-run/rouse/eventbridge/timers"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/testing/natstest"
	"github.com/rouse-run/rouse/internal/testing/never"
)

const (
	timeout = time.Minute
	moment  = 10 * time.Millisecond
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a nats-server, the Schedules that all bridges see, and the events that are stored.
type rig struct {
	nats      *natstest.Server
	conn      *broker.Conn
	schedules *listed

	mu     sync.Mutex
	stored []cloudevent.Event
}

func newRig(t *testing.T, schedules ...*v1alpha1.Schedule) *rig {
	t.Helper()
	r := &rig{nats: natstest.Start(t), schedules: &listed{}}
	r.schedules.set(schedules...)
	r.conn = r.connect(t)
	require.Eventually(t, r.conn.Connected, timeout, moment)
	require.NoError(t, r.conn.EnsureStreams(t.Context(), broker.DefaultStreamOptions()))
	require.NoError(t, r.conn.EnsureConsumer(t.Context(), broker.DefaultStream, broker.Consumer{
		Name: "all", Subjects: []string{"kyma.>"}, StartFrom: broker.StartFrom{Policy: broker.StartAll}, AckWait: time.Minute, MaxAckPending: 100,
	}))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var receiving sync.WaitGroup
	receiving.Go(func() { r.receive(ctx) })
	t.Cleanup(func() {
		cancel()
		receiving.Wait()
	})
	return r
}

func (r *rig) receive(ctx context.Context) {
	for ctx.Err() == nil {
		source := broker.NewSource(r.conn, broker.DefaultStream, "all", types.NamespacedName{Namespace: "shop", Name: "all"}, 100)
		_ = source.Receive(ctx, nil, func(m *broker.Message) {
			if ev, err := m.Event(); err == nil {
				r.mu.Lock()
				r.stored = append(r.stored, ev)
				r.mu.Unlock()
			}
			_ = m.Ack(ctx)
		})
	}
}

func (r *rig) connect(t *testing.T) *broker.Conn {
	t.Helper()
	options := broker.DefaultOptions()
	options.URL = r.nats.URL()
	conn, err := broker.Connect(t.Context(), options, logr.Discard())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

// bridge is one process with timers.
type bridge struct {
	*timers.Timers

	stop func()
}

func (r *rig) start(t *testing.T, change ...func(*timers.Deps, *timers.Options)) *bridge {
	t.Helper()
	conn := r.connect(t)
	publisher := broker.NewPublisher(conn, broker.DefaultPublisherOptions())
	deps := timers.Deps{
		Schedules: r.schedules, Store: jetstream.NewTimerStore(conn, publisher), ID: broker.NewBeatID(), Publish: publisher.Publish,
		Allow:      func(namespace string, ev *cloudevent.Event) error { ev.Publisher = namespace; return nil },
		Registerer: prometheus.NewRegistry(), Log: logr.Discard(),
	}
	options := timers.DefaultOptions()
	for _, c := range change {
		c(&deps, &options)
	}
	b := &bridge{Timers: timers.New(deps, options)}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = b.Run(ctx) })
	b.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(b.stop)
	return b
}

// events returns the ids of what is stored of a type, in their order.
func (r *rig) events(eventType string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for i := range r.stored {
		if r.stored[i].Type == eventType {
			ids = append(ids, r.stored[i].ID)
		}
	}
	return ids
}

func (r *rig) awaitEvents(t *testing.T, eventType string, count int) []string {
	t.Helper()
	require.Eventually(t, func() bool { return len(r.events(eventType)) >= count }, timeout, moment)
	return r.events(eventType)
}

// listed are the Schedules of a rig.
type listed struct {
	mu      sync.Mutex
	all     []*v1alpha1.Schedule
	changed []chan struct{}
}

func (l *listed) set(all ...*v1alpha1.Schedule) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = all
	for _, changed := range l.changed {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}

// Watch implements timers.Schedules.
func (l *listed) Watch(ctx context.Context, apply func([]*v1alpha1.Schedule)) error {
	changed := make(chan struct{}, 1)
	l.mu.Lock()
	l.changed = append(l.changed, changed)
	l.mu.Unlock()
	for {
		l.mu.Lock()
		all := slices.Clone(l.all)
		l.mu.Unlock()
		apply(all)
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

func everySecond(name string) *v1alpha1.Schedule {
	return &v1alpha1.Schedule{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(name), Generation: 1, CreationTimestamp: metav1.NewTime(time.Now().Truncate(time.Second)),
		},
		Spec: v1alpha1.ScheduleSpec{
			Every: "1s", Missed: v1alpha1.Missed{Policy: v1alpha1.MissedAll, Limit: 100},
			Event: v1alpha1.ScheduledEvent{Type: name + ".v1"},
		},
	}
}

// requireEachOnce requires an event for each due time after the creation of a Schedule, in their order.
func requireEachOnce(t *testing.T, s *v1alpha1.Schedule, ids []string) {
	t.Helper()
	for i, id := range ids {
		due := s.CreationTimestamp.Add(time.Duration(i+1) * time.Second)
		require.Equal(t, fmt.Sprintf("%s/%s", s.UID, due.UTC().Format(time.RFC3339)), id)
	}
}

func TestSeveralBridgesPublishEachDueTimeOnce(t *testing.T) {
	t.Parallel()
	tick := everySecond("tick")
	r := newRig(t, tick)
	for range 3 {
		r.start(t)
	}
	requireEachOnce(t, tick, r.awaitEvents(t, "tick.v1", 4))
}

func TestABridgeThatEndsLeavesNoDueTimeOut(t *testing.T) {
	t.Parallel()
	var all []*v1alpha1.Schedule
	for i := range 8 { // some are the first one's
		all = append(all, everySecond(fmt.Sprintf("tick%d", i)))
	}
	r := newRig(t, all...)
	first := r.start(t)
	r.start(t)
	r.awaitEvents(t, "tick0.v1", 2)
	first.stop()
	for _, s := range all {
		requireEachOnce(t, s, r.awaitEvents(t, s.Name+".v1", 5))
	}
}

func TestARestartGoesOnAfterTheCursor(t *testing.T) {
	t.Parallel()
	tick := everySecond("tick")
	r := newRig(t, tick)
	r.start(t).stop()
	b := r.start(t)
	r.awaitEvents(t, "tick.v1", 2)
	b.stop()
	cursor, err := r.conn.Cursor(t.Context(), "tick")
	require.NoError(t, err)
	require.EqualValues(t, len(r.events("tick.v1")), cursor.Published)
	require.Equal(t, r.events("tick.v1")[cursor.Published-1], cursor.LastID)
	require.True(t, cursor.LastDue.Equal(cursor.Through))

	r.nats.Restart() // and with it what the stream recognises
	r.start(t)
	requireEachOnce(t, tick, r.awaitEvents(t, "tick.v1", int(cursor.Published)+3))
}

func TestWhatIsMissedWhileNatsIsAwayFollowsThePolicy(t *testing.T) {
	t.Parallel()
	all, one := everySecond("all"), everySecond("one")
	one.Spec.Missed = v1alpha1.Missed{Policy: v1alpha1.MissedOne}
	r := newRig(t, all, one)
	r.start(t)
	r.awaitEvents(t, "all.v1", 1)
	r.awaitEvents(t, "one.v1", 1)
	r.nats.Stop()
	time.Sleep(4 * time.Second) // what the test is about: due times pass
	r.nats.Run()
	requireEachOnce(t, all, r.awaitEvents(t, "all.v1", 8))
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return slices.ContainsFunc(r.stored, func(ev cloudevent.Event) bool {
			return ev.Type == "one.v1" && ev.Extension("rousemissed") != ""
		})
	}, timeout, moment, "an event says how many are left out")
}

func TestAChangedScheduleCountsFromTheChange(t *testing.T) {
	t.Parallel()
	tick := everySecond("tick")
	tick.Generation = 7
	tick.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	r := newRig(t, tick)
	before := time.Now()
	r.start(t)
	for _, id := range r.awaitEvents(t, "tick.v1", 2) {
		_, due, _ := strings.Cut(id, "/")
		at, err := time.Parse(time.RFC3339, due)
		require.NoError(t, err)
		require.True(t, at.After(before.Add(-time.Second)), "nothing of the hour before")
	}
	changed := tick.DeepCopy()
	changed.Generation, changed.Spec.Event.Type = 8, "tock.v1"
	r.schedules.set(changed)
	r.awaitEvents(t, "tock.v1", 2)
	r.schedules.set()
	awaitCursor(t, r, "tick", func(c broker.Cursor) bool { // stored after the event
		return c.Generation == 8 && c.Published == int64(len(r.events("tick.v1"))+len(r.events("tock.v1")))
	})
	count := len(r.events("tock.v1"))
	never.Happens(t, func() bool { return len(r.events("tock.v1")) > count+1 }, 1500*time.Millisecond, moment, "it is gone")
}

func awaitCursor(t *testing.T, r *rig, uid string, has func(broker.Cursor) bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		cursor, err := r.conn.Cursor(t.Context(), uid)
		return err == nil && has(cursor)
	}, timeout, moment)
}

func TestALostCursorRepeatsNothingThatTheStatusKnows(t *testing.T) {
	t.Parallel()
	tick := everySecond("tick")
	tick.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	last := metav1.NewTime(time.Now().Truncate(time.Second))
	tick.Status = v1alpha1.ScheduleStatus{ObservedGeneration: 1, LastDue: &last}
	r := newRig(t, tick)
	r.start(t)
	require.Equal(t, "tick/"+last.Add(time.Second).UTC().Format(time.RFC3339), r.awaitEvents(t, "tick.v1", 1)[0])
}

func TestAForbiddenEventIsNotPublishedAndHoldsUpNothing(t *testing.T) {
	t.Parallel()
	forbidden, allowed := everySecond("forbidden"), everySecond("allowed")
	r := newRig(t, forbidden, allowed)
	r.start(t, func(deps *timers.Deps, _ *timers.Options) {
		deps.Allow = func(_ string, ev *cloudevent.Event) error {
			if ev.Type == "forbidden.v1" {
				return errors.New("no rule")
			}
			return nil
		}
	})
	r.awaitEvents(t, "allowed.v1", 2)
	require.Empty(t, r.events("forbidden.v1"))
	awaitCursor(t, r, "forbidden", func(c broker.Cursor) bool { return !c.Through.IsZero() && c.Published == 0 })
}

func TestASchedulesThatExceedTheShareArePausedAlone(t *testing.T) {
	t.Parallel()
	older, younger, other := everySecond("older"), everySecond("younger"), everySecond("other")
	older.CreationTimestamp = metav1.NewTime(older.CreationTimestamp.Add(-time.Second))
	other.Namespace = "bank"
	r := newRig(t, older, younger, other)
	r.start(t, func(_ *timers.Deps, o *timers.Options) { o.Share.PerMinute = 60 })
	r.awaitEvents(t, "older.v1", 2)
	r.awaitEvents(t, "other.v1", 2)
	require.Empty(t, r.events("younger.v1"))
}

func TestAScheduleIsRunByHandWithoutMovingItsTimes(t *testing.T) {
	t.Parallel()
	yearly := everySecond("yearly")
	yearly.Spec.Every, yearly.Spec.Cron = "", "@yearly"
	yearly.Spec.Paused = true
	r := newRig(t, yearly)
	b := r.start(t)
	var id string
	require.Eventually(t, func() bool {
		var err error
		id, err = b.RunSchedule(t.Context(), types.NamespacedName{Namespace: "shop", Name: "yearly"})
		return err == nil
	}, timeout, moment)
	require.Equal(t, []string{id}, r.awaitEvents(t, "yearly.v1", 1))
	_, err := b.RunSchedule(t.Context(), types.NamespacedName{Namespace: "bank", Name: "yearly"})
	require.ErrorIs(t, err, timers.ErrNoSchedule)
}

func order(id string) *cloudevent.Event {
	return &cloudevent.Event{ID: id, Source: "shop", Type: "order.v1", DataContentType: "application/json", Data: []byte(`{}`), Publisher: "shop"}
}

// delay delays an event once the bridge is ready to.
func (b *bridge) delay(t *testing.T, ev *cloudevent.Event, due time.Time) timers.Delayed {
	t.Helper()
	var stored timers.Delayed
	require.Eventually(t, func() bool {
		var later bool
		var err error
		stored, later, err = b.Delay(t.Context(), ev, due)
		require.True(t, later)
		return err == nil
	}, timeout, moment)
	return stored
}

func TestADelayedEventIsPublishedOnceWhenItIsDue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := r.start(t)
	r.start(t)
	due := time.Now().Add(2 * time.Second)
	first.delay(t, order("1"), due)
	require.Equal(t, []string{"1"}, r.awaitEvents(t, "order.v1", 1))
	require.False(t, time.Now().Before(due), "never early")
	require.Eventually(t, func() bool {
		waiting, err := r.conn.DelayedEvents(t.Context(), "")
		return err == nil && len(waiting) == 0 && len(first.DelayedEvents("")) == 0
	}, timeout, moment)
	require.Len(t, r.events("order.v1"), 1)
}

func TestDelayedEventsOutliveTheirBridgeAndNats(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.start(t)
	due := time.Now().Add(3 * time.Second)
	for _, id := range []string{"1", "2", "3"} {
		b.delay(t, order(id), due)
	}
	b.stop()
	r.nats.Restart()
	r.start(t)
	require.ElementsMatch(t, []string{"1", "2", "3"}, r.awaitEvents(t, "order.v1", 3))
}

func TestARepeatedDelayIsOneAndAnotherTimeIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, second := r.start(t), r.start(t)
	due := time.Now().Add(time.Hour).Truncate(time.Second)
	stored := first.delay(t, order("1"), due)
	require.Equal(t, stored.ID, first.delay(t, order("1"), due).ID)
	require.Equal(t, stored.ID, second.delay(t, order("1"), due).ID, "also at another bridge")
	for _, b := range []*bridge{first, second} {
		_, _, err := b.Delay(t.Context(), order("1"), due.Add(time.Second))
		require.ErrorIs(t, err, failure.ErrDelayedOtherwise)
	}
	waiting, err := r.conn.DelayedEvents(t.Context(), "shop")
	require.NoError(t, err)
	require.Len(t, waiting, 1)
}

func TestACancelledEventIsNotPublishedAndCanBeDelayedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, second := r.start(t), r.start(t)
	due := time.Now().Add(3 * time.Second)
	stored := first.delay(t, order("1"), due)
	require.Eventually(t, func() bool { return len(second.DelayedEvents("shop")) == 1 }, timeout, moment)
	require.ErrorIs(t, second.CancelDelayed(t.Context(), "bank", stored.ID), failure.ErrNoDelayed, "it is not theirs")
	_, ev, err := second.DelayedEvent(t.Context(), "shop", stored.ID)
	require.NoError(t, err)
	require.Equal(t, "1", ev.ID)
	require.NoError(t, second.CancelDelayed(t.Context(), "shop", stored.ID))
	require.ErrorIs(t, second.CancelDelayed(t.Context(), "shop", stored.ID), failure.ErrNoDelayed)
	require.Eventually(t, func() bool { return len(first.DelayedEvents("shop")) == 0 }, timeout, moment, "the others hear of it")
	first.delay(t, order("1"), due.Add(time.Second))
	require.Equal(t, []string{"1"}, r.awaitEvents(t, "order.v1", 1))
	require.False(t, time.Now().Before(due.Add(time.Second)))
}

func TestATimeThatCannotBeIsRefusedAndThePastIsNow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.start(t)
	b.delay(t, order("0"), time.Now().Add(time.Hour))
	for _, wait := range []time.Duration{-6 * time.Minute, 367 * 24 * time.Hour} {
		_, later, err := b.Delay(t.Context(), order("1"), time.Now().Add(wait))
		var invalid *failure.InvalidEventError
		require.ErrorAs(t, err, &invalid)
		require.True(t, later)
	}
	_, later, err := b.Delay(t.Context(), order("1"), time.Now().Add(-time.Minute))
	require.NoError(t, err)
	require.False(t, later)
}

func TestANamespaceLeavesRoomForDelayedEventsOfOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	options := broker.DefaultStreamOptions()
	options.DelayedMaxBytes = 64 << 10
	require.NoError(t, r.conn.EnsureStreams(t.Context(), options))
	b := r.start(t)
	due := time.Now().Add(time.Hour)
	b.delay(t, order("0"), due)
	stored := 1
	for ; stored < 100; stored++ {
		_, _, err := b.Delay(t.Context(), order(strconv.Itoa(stored)), due)
		if err != nil {
			require.ErrorIs(t, err, failure.ErrDelayedShare)
			break
		}
	}
	require.InDelta(t, 32, stored, 4, "half of what there is, of 1 KiB each")
	of := order("theirs")
	of.Publisher = "bank"
	b.delay(t, of, due)
}
