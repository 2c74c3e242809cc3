package dispatch

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// unanswered tracks the calls that hold slots and have no answer, in the order in which they are detached. One timer
// serves all of them.
type unanswered struct {
	after  time.Duration
	most   int             // concurrent detached calls
	detach func(*job) bool // runs on a new goroutine

	mu          sync.Mutex
	first, last *job
	detached    int // or about to be detached
	timer       *time.Timer
	armed       bool
}

// call is a job's call. The lock of unanswered guards it.
type call struct {
	began     time.Time
	hold      time.Duration
	due       time.Time // when it is to be detached
	detaching chan struct{}
	answered  bool
	listed    bool
	next      *job
	previous  *job
}

// begin adds a call of the sink.
func (u *unanswered) begin(j *job) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	j.call.began, j.call.hold = now, u.hold(j.limit)
	u.add(j, now)
	u.arm()
}

// hold returns how long a call may hold its slot. With fewer slots the time is shorter, so that the same number of
// calls gets a slot in the same time. Otherwise hanging events would block the others for longest while their sink is
// throttled.
func (u *unanswered) hold(slots int) time.Duration {
	return max(u.after*time.Duration(slots)/time.Duration(u.most), leastDetach)
}

// end removes a completed call. It returns when its message is no longer being detached.
func (u *unanswered) end(j *job) {
	u.mu.Lock()
	j.call.answered = true
	u.remove(j)
	detaching := j.call.detaching
	u.mu.Unlock()
	if detaching != nil {
		<-detaching
	}
}

// free counts a detached call that completed.
func (u *unanswered) free() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.detached--
	u.arm()
}

// detachDue detaches the calls that are due and rearms the timer.
func (u *unanswered) detachDue() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.armed = false
	for j := u.nextDue(time.Now()); j != nil; j = u.nextDue(time.Now()) {
		u.remove(j)
		u.detached++
		j.call.detaching = make(chan struct{})
		go func() { u.done(j, u.detach(j)) }()
	}
	u.arm()
}

// nextDue returns the next call to detach, nil without one. The caller holds the lock.
func (u *unanswered) nextDue(now time.Time) *job {
	if u.first == nil || u.detached >= u.most || u.first.call.due.After(now) {
		return nil
	}
	return u.first
}

// done ends the detaching of a call. A call that could not be detached is due again later.
func (u *unanswered) done(j *job, detached bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	close(j.call.detaching)
	if detached {
		return
	}
	u.detached--
	if !j.call.answered {
		j.call.detaching = nil
		u.add(j, time.Now())
	}
	u.arm()
}

// add appends a call after those that are due before it: when slots become fewer none is given before all calls that
// held one have left. The caller holds the lock.
func (u *unanswered) add(j *job, now time.Time) {
	j.call.due, j.call.listed = now.Add(j.call.hold), true
	j.call.previous, j.call.next = u.last, nil
	if u.last == nil {
		u.first = j
	} else {
		u.last.call.next = j
	}
	u.last = j
}

// The caller holds the lock.
func (u *unanswered) remove(j *job) {
	c := &j.call
	if !c.listed {
		return
	}
	c.listed = false
	if c.previous == nil {
		u.first = c.next
	} else {
		c.previous.call.next = c.next
	}
	if c.next == nil {
		u.last = c.previous
	} else {
		c.next.call.previous = c.previous
	}
	c.previous, c.next = nil, nil
}

// The caller holds the lock.
func (u *unanswered) arm() {
	if u.armed || u.first == nil || u.detached >= u.most {
		return
	}
	u.armed = true
	wait := time.Until(u.first.call.due)
	if u.timer == nil {
		u.timer = time.AfterFunc(wait, u.detachDue)
		return
	}
	u.timer.Reset(wait)
}

func (u *unanswered) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.timer != nil {
		u.timer.Stop()
	}
}

const (
	// detachShare is the divisor of the timeout after which a call without an answer is detached.
	detachShare = 4
	// leastDetach is the minimum time that a call holds its slot: storing an event twice more costs more than the slot
	// of a short call.
	leastDetach = time.Second
)

// detachAfter returns how long a call may hold its slot, 0 for until it ends. Subscriptions with one delivery at a time
// or in order do not detach. Dead letters block only each other.
func detachAfter(o Options, maxInFlight int) time.Duration {
	after := max(o.Timeout/detachShare, leastDetach)
	if maxInFlight < 2 || o.OrderedBy != "" || o.Endless || after >= o.Timeout {
		return 0
	}
	return after
}

// send calls the sink.
func (d *Dispatcher) send(ctx context.Context, j *job, a *attempt) (Answer, error) {
	if d.unanswered == nil {
		return d.Sink.Send(ctx, a.event)
	}
	d.unanswered.begin(j)
	defer d.unanswered.end(j)
	return d.Sink.Send(ctx, a.event)
}

// detach removes a message from the broker's limit, and its job from the scheduler, while the call continues. The event
// is redelivered if it is not settled AckWait after the end of its call: connecting to other addresses, a reply and the
// settlement take time.
func (d *Dispatcher) detach(j *job) (detached bool) {
	defer func() {
		if p := recover(); p != nil {
			d.Log.Error(fmt.Errorf("panic: %v", p), "panic while detaching a call", "stack", string(debug.Stack()))
		}
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.work), settleTimeout)
	defer cancel()
	if err := j.Detach(ctx, time.Until(j.call.began.Add(d.options.Timeout))+d.options.AckWait); err != nil {
		d.Log.V(1).Info("cannot detach a slow call, it holds its slot", "reason", err.Error())
		return false
	}
	d.held.remove(j.Message)
	d.series.get().detached.Inc()
	d.series.get().detachedCalls.Inc()
	d.scheduler.detach(j)
	return true
}
