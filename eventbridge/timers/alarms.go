package timers

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// alarms fire at times of the server, later by the time that this bridge leaves to the bridges before it.
type alarms struct {
	now      func() time.Time
	patience func(key string) time.Duration

	changed chan struct{} // a note that the next alarm may be another one

	mu     sync.Mutex
	queue  alarmQueue
	byName map[string]*alarm
}

type alarm struct {
	key   string
	due   time.Time
	at    time.Time // with the patience
	index int
}

func newAlarms(now func() time.Time, patience func(string) time.Duration) *alarms {
	return &alarms{now: now, patience: patience, changed: make(chan struct{}, 1), byName: map[string]*alarm{}}
}

// set replaces the alarm of a key.
func (a *alarms) set(key string, due time.Time) { a.setAt(key, due, due.Add(a.patience(key))) }

// again sets an alarm at a time, whatever the patience.
func (a *alarms) again(key string, at time.Time) { a.setAt(key, at, at) }

func (a *alarms) setAt(key string, due, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if set := a.byName[key]; set != nil {
		set.due, set.at = due, at
		heap.Fix(&a.queue, set.index)
	} else {
		set = &alarm{key: key, due: due, at: at}
		a.byName[key] = set
		heap.Push(&a.queue, set)
	}
	if a.queue[0].key == key {
		a.note()
	}
}

func (a *alarms) drop(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if set := a.byName[key]; set != nil {
		heap.Remove(&a.queue, set.index)
		delete(a.byName, key)
	}
}

// reorder computes the patience for all alarms again.
func (a *alarms) reorder() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, set := range a.queue {
		set.at = set.due.Add(a.patience(set.key))
	}
	heap.Init(&a.queue)
	a.note()
}

func (a *alarms) note() {
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// longestSleep bounds a wait, since the server's clock may be set.
const longestSleep = time.Second

// run calls each with the keys whose alarms go off, which are gone then, until ctx ends.
func (a *alarms) run(ctx context.Context, each func(key string)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.changed:
		case <-timer.C:
		}
		due, next := a.take()
		for _, key := range due {
			each(key)
		}
		timer.Reset(next)
	}
}

// take removes the alarms that go off now, and returns how long it is until the next one.
func (a *alarms) take() (due []string, next time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	for len(a.queue) > 0 {
		first := a.queue[0]
		if wait := first.at.Sub(now); wait > 0 {
			return due, min(wait, longestSleep)
		}
		heap.Pop(&a.queue)
		delete(a.byName, first.key)
		due = append(due, first.key)
	}
	return due, longestSleep
}

// alarmQueue implements heap.Interface.
type alarmQueue []*alarm

func (q alarmQueue) Len() int           { return len(q) }
func (q alarmQueue) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q alarmQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *alarmQueue) Push(x any) {
	set, _ := x.(*alarm)
	set.index = len(*q)
	*q = append(*q, set)
}

// Pop implements heap.Interface.
func (q *alarmQueue) Pop() any {
	last := (*q)[len(*q)-1]
	(*q)[len(*q)-1] = nil
	*q = (*q)[:len(*q)-1]
	return last
}
