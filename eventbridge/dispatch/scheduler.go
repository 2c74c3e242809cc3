package dispatch

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rouse-run/rouse/internal/failure"
)

// job is a message that the dispatcher holds: it waits for a slot, runs, or waits for its next attempt.
type job struct {
	Message
	key        string         // ordering key, empty without order
	attempt    int            // from 1
	generation int            // of the scheduler when the message arrived
	over       failure.Reason // of a message that bypasses the scheduler because it is over a limit

	limit    int // of the window when it started
	call     call
	detached bool   // it holds no slot any more
	answers  uint64 // the sink's answers when it was detached
}

// scheduler decides which message is delivered next and when: within the window and the rate, and of each key only the
// first.
type scheduler struct {
	start func(*job) // runs a job and does not block
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
	generation int           // how often the scheduler was cleared
	halted     chan struct{} // closed while nothing starts until the scheduler is cleared
	closed     bool
}

func newScheduler(maxInFlight, perSecond int, share HoldLimit) *scheduler {
	return &scheduler{
		share: share,
		busy:  map[string]bool{}, delayed: map[*job]*time.Timer{}, window: newWindow(maxInFlight), rate: newRate(perSecond),
		halted: make(chan struct{}),
	}
}

// add queues a received message. It returns false when the scheduler is closed.
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

// detach frees the slot of a job whose call continues.
func (d *scheduler) detach(j *job) {
	d.mu.Lock()
	defer d.mu.Unlock()
	j.detached, j.answers = true, d.window.answers
	d.running--
	d.next(time.Now())
}

// silent reports whether a sink that did not answer a job in time answered no other job either since that one was
// detached.
func (d *scheduler) silent(j *job) bool { return !j.detached || j.answers == d.window.answers }

// done frees the slot of a job. With requeue the job is delivered again after the delay, before others of its key. It
// returns false when it will not be, because the scheduler is closed or was cleared since the message arrived.
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
	default: // the result is not about the sink
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

// repeat puts a job that is due again in front of the others.
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

// next starts jobs as far as the limits allow. The caller holds the lock.
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

// slots returns how many jobs may run now.
func (d *scheduler) slots() int {
	if d.share == nil {
		return d.window.limit
	}
	deliveries, _ := d.share()
	return min(d.window.limit, deliveries)
}

// first returns the index of the first job with a free key, -1 without one.
func (d *scheduler) first() int {
	for i, j := range d.waiting {
		if j.key == "" || !d.busy[j.key] {
			return i
		}
	}
	return -1
}

// wait returns how long the next delivery has to wait. With 0 it counts for the rate.
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

// halt stops the scheduler until it is cleared: another replica owns an ordered message, so none may start before it.
func (d *scheduler) halt() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !isClosed(d.halted) {
		close(d.halted)
	}
}

// haltSignal returns a channel that halt closes.
func (d *scheduler) haltSignal() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.halted
}

// clear removes and returns the waiting jobs in order. Further jobs are accepted unless closeIt is set.
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

// window bounds concurrent deliveries by the sink's condition. A sink that accepts nothing gets one at a time, after
// growing pauses; when it answers again the window doubles each round, so that the backlog does not arrive at once.
type window struct {
	most     int
	limit    int
	failures int // in a row
	pauses   int // in a row
	answers  uint64
}

const (
	// tolerated failures in a row do not shrink the window: some events always fail.
	tolerated     = 10
	firstPause    = 100 * time.Millisecond
	longestPause  = time.Second
	maxPauseShift = 4
)

func newWindow(most int) window { return window{most: most, limit: most} }

func (w *window) answered() {
	w.failures, w.pauses = 0, 0
	w.answers++
	w.limit = min(w.limit+1, w.most)
}

// strained returns how long to pause calls of the sink, 0 for no pause.
func (w *window) strained() time.Duration {
	w.failures++
	if w.pauses == 0 && w.failures < max(tolerated, w.limit) {
		return 0
	}
	pause := min(firstPause<<min(w.pauses, maxPauseShift), longestPause)
	w.failures, w.limit = 0, 1
	w.pauses++
	return pause
}

// rate spreads deliveries over time: one each interval, and after a rest as many as fall due in a tenth of a second.
type rate struct {
	interval time.Duration // 0 for no limit
	burst    time.Duration
	free     time.Time // when the next one is due
}

func newRate(perSecond int) rate {
	if perSecond <= 0 {
		return rate{}
	}
	return rate{interval: time.Second / time.Duration(perSecond), burst: time.Second / 10}
}

// reserve counts a delivery and returns 0, or returns how long to wait.
func (r *rate) reserve(now time.Time) time.Duration {
	if r.interval == 0 {
		return 0
	}
	if oldest := now.Add(-r.burst); r.free.Before(oldest) {
		r.free = oldest
	}
	if wait := r.free.Sub(now); wait > 0 {
		return wait
	}
	r.free = r.free.Add(r.interval)
	return 0
}

// inFlight is the set of messages that are held. One timer extends all of them: a timer for each message would cost
// more than the delivery of a short one.
type inFlight struct {
	interval time.Duration
	failed   func(error)

	mu       sync.Mutex
	messages map[Message]time.Time // when each was last extended
	timer    *time.Timer           // nil while nothing is held
	extends  sync.WaitGroup
	stopped  bool
}

func newInFlight(interval time.Duration, failed func(error)) *inFlight {
	return &inFlight{interval: interval, failed: failed, messages: map[Message]time.Time{}}
}

func (f *inFlight) add(msg Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.messages[msg] = time.Now()
	if f.timer == nil && !f.stopped {
		f.timer = time.AfterFunc(f.interval, f.extend)
	}
}

func (f *inFlight) remove(msg Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.messages, msg)
}

// lapsed reports whether a held message was not extended for so long that the broker may have redelivered it.
func (f *inFlight) lapsed(msg Message) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	extendedAt, held := f.messages[msg]
	return held && time.Since(extendedAt) >= 2*f.interval
}

// extended records that a message was extended.
func (f *inFlight) extended(msg Message, at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, held := f.messages[msg]; held {
		f.messages[msg] = at
	}
}

func (f *inFlight) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.messages)
}

// extend extends the held messages and rearms the timer while there are some.
func (f *inFlight) extend() {
	held, ok := f.begin()
	if !ok {
		return
	}
	defer f.extends.Done()
	ctx, cancel := context.WithTimeout(context.Background(), f.interval)
	defer cancel()
	for _, msg := range held {
		begun := time.Now()
		if err := msg.Extend(ctx); err != nil {
			f.failed(err)
			continue
		}
		f.extended(msg, begun)
	}
}

// begin returns false when nothing is held or the set is closed.
func (f *inFlight) begin() ([]Message, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return nil, false
	}
	if len(f.messages) == 0 {
		f.timer = nil
		return nil, false
	}
	held := make([]Message, 0, len(f.messages))
	for msg := range f.messages {
		held = append(held, msg)
	}
	f.timer.Reset(f.interval)
	f.extends.Add(1)
	return held, true
}

// stop waits until no extension is running.
func (f *inFlight) stop() {
	f.mu.Lock()
	f.stopped = true
	if f.timer != nil {
		f.timer.Stop()
	}
	f.mu.Unlock()
	f.extends.Wait()
}
