package dispatch

import (
	"slices"
	"sync"
	"time"

	"github.com/rouse-run/rouse/internal/failure"
)

// job is a message that the dispatcher holds. It waits for a slot, or runs, or waits for its next attempt.
type job struct {
	Message
	key        string         // what keeps it in order, empty for nothing
	attempt    int            // from 1
	generation int            // of the scheduler, when the message came
	over       failure.Reason // of a message that bypasses the scheduler, because it is over a limit

	limit    int // of the window when it was started
	call     call
	detached bool   // it has no slot any more
	answers  uint64 // that the sink had given when it was detached
}

// scheduler decides which message is delivered next, and when: as many at a time as the window allows, not more in a
// second than the rate, and of each key only the first.
type scheduler struct {
	start func(*job) // runs a job on a goroutine of its own
	share HoldLimit  // bounds the window; nil does not

	mu         sync.Mutex
	waiting    []*job
	busy       map[string]bool // keys with a job that runs or waits for its next attempt
	delayed    map[*job]*time.Timer
	running    int
	window     window
	rate       rate
	resume     time.Time // when the sink may be called again
	timer      *time.Timer
	generation int           // counts how often the scheduler was cleared
	halted     chan struct{} // closed while nothing starts before the scheduler is cleared
	closed     bool
}

func newScheduler(maxInFlight, perSecond int, share HoldLimit) *scheduler {
	return &scheduler{
		share: share,
		busy:  map[string]bool{}, delayed: map[*job]*time.Timer{}, window: newWindow(maxInFlight), rate: newRate(perSecond),
		halted: make(chan struct{}),
	}
}

// add queues a message that was received. It reports false when the scheduler is closed.
func (d *scheduler) add(j *job) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	j.generation = d.generation
	d.waiting = append(d.waiting, j)
	d.next(time.Now())
	return true
}

// detach frees the slot of a job whose call goes on.
func (d *scheduler) detach(j *job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j.detached, j.answers = true, d.window.answers
	d.running--
	d.next(time.Now())
}

// silent reports whether a sink that did not answer a job in time answered no other job since that one was detached, either.
func (d *scheduler) silent(j *job) bool { return !j.detached || j.answers == d.window.answers }

// done frees the slot of a job. With requeue, the job is delivered once more after the delay, before others of its key.
// It reports false when it will not be, because the scheduler is closed or was cleared since the message came.
func (d *scheduler) done(j *job, v result, requeue bool, delay time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !j.detached {
		d.running--
	}
	now := time.Now()
	switch v {
	case delivered, refused, failed: // it answers
		d.window.answered()
	case strained:
		if !d.silent(j) {
			break
		}
		if pause := d.window.strained(); pause > 0 {
			d.resume = now.Add(pause)
		}
	default: // the result says nothing about the sink
	}
	kept := requeue && !d.closed && j.generation == d.generation
	if kept {
		d.delayed[j] = time.AfterFunc(delay, func() { d.repeat(j) })
	} else {
		delete(d.busy, j.key)
	}
	d.next(now)
	return kept
}

// repeat puts a job whose time has come in front of the others.
func (d *scheduler) repeat(j *job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.delayed[j]; !ok {
		return
	}
	delete(d.delayed, j)
	delete(d.busy, j.key)
	d.waiting = slices.Insert(d.waiting, 0, j)
	d.next(time.Now())
}

// next starts what may be started. The lock is held.
func (d *scheduler) next(now time.Time) {
	for !d.closed && !isClosed(d.halted) && d.running < d.slots() {
		i := d.first()
		if i < 0 {
			return
		}
		if wait := d.wait(now); wait > 0 {
			d.later(wait)
			return
		}
		j := d.waiting[i]
		if i == 0 {
			d.waiting[0] = nil
			d.waiting = d.waiting[1:]
		} else {
			d.waiting = slices.Delete(d.waiting, i, i+1)
		}
		if j.key != "" {
			d.busy[j.key] = true
		}
		d.running++
		j.limit = d.window.limit
		d.start(j)
	}
}

// slots is how many jobs may run now.
func (d *scheduler) slots() int {
	if d.share == nil {
		return d.window.limit
	}
	deliveries, _ := d.share()
	return min(d.window.limit, deliveries)
}

// first is the first job whose key is free, -1 without one.
func (d *scheduler) first() int {
	for i, j := range d.waiting {
		if j.key == "" || !d.busy[j.key] {
			return i
		}
	}
	return -1
}

// wait is how long the next delivery has to wait. If it need not wait, it counts for the rate.
func (d *scheduler) wait(now time.Time) time.Duration {
	if pause := d.resume.Sub(now); pause > 0 {
		return pause
	}
	return d.rate.reserve(now)
}

func (d *scheduler) later(wait time.Duration) {
	if d.timer != nil {
		d.timer.Reset(wait)
		return
	}
	d.timer = time.AfterFunc(wait, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.next(time.Now())
	})
}

// halt stops the scheduler until it is cleared: another replica owns an ordered message, and none may start before it.
func (d *scheduler) halt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !isClosed(d.halted) {
		close(d.halted)
	}
}

// haltSignal is closed by halt, until the scheduler is cleared.
func (d *scheduler) haltSignal() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.halted
}

// clear returns what waits, in its order, so that it can be given back. Further jobs are accepted unless closeIt is set.
func (d *scheduler) clear(closeIt bool) []*job {
	d.mu.Lock()
	defer d.mu.Unlock()
	var left []*job
	for j, timer := range d.delayed {
		timer.Stop()
		delete(d.busy, j.key)
		left = append(left, j)
	}
	clear(d.delayed)
	d.generation++
	if isClosed(d.halted) {
		d.halted = make(chan struct{})
	}
	left = append(left, d.waiting...)
	d.waiting = nil
	d.closed = d.closed || closeIt
	if d.closed && d.timer != nil {
		d.timer.Stop()
	}
	return left
}
