package dispatch

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"
)

// unanswered are the calls that hold slots and have no answer, in the order in which they are to be detached. One timer
// serves all of them, and fires at most once in as long as each may hold its slot.
type unanswered struct {
	after  time.Duration
	most   int             // detached calls at a time
	detach func(*job) bool // has a goroutine of its own

	mu          sync.Mutex
	first, last *job
	detached    int // or about to be
	timer       *time.Timer
	armed       bool
}

// call is what is known of the call of a job. The lock of unanswered is held.
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

// begin lists a call of the sink.
func (u *unanswered) begin(j *job) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	j.call.began, j.call.hold = now, u.hold(j.limit)
	u.add(j, now)
	u.arm()
}

// hold is how long a call may hold its slot: shorter while there are fewer slots, so that as many calls get one in the same
// time. Otherwise events that hang would block the others for longest when their sink is spared for their sake.
func (u *unanswered) hold(slots int) time.Duration {
	return max(u.after*time.Duration(slots)/time.Duration(u.most), leastDetach)
}

// end takes a call that has ended off the list. It returns when its message is not being detached any more.
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

// free counts a detached call that is over.
func (u *unanswered) free() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.detached--
	u.arm()
}

// detachDue detaches what is due, and arms the timer again while there are calls that may be detached.
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

// nextDue is the next call to be detached, nil without one. The lock is held.
func (u *unanswered) nextDue(now time.Time) *job {
	if u.first == nil || u.detached >= u.most || u.first.call.due.After(now) {
		return nil
	}
	return u.first
}

// done ends the detaching of a call. A call that could not be detached is tried again later.
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

// add puts a call behind the others, which are due before it: when there are fewer slots none is given before all calls that
// held one have left. The lock is held.
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

// remove is called with the lock held.
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

// arm is called with the lock held.
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
	// detachShare is the part of its timeout, one of so many, after which a call without an answer is detached.
	detachShare = 4
	// leastDetach is how long every call keeps its slot: to store an event twice more costs more than the slot of a short call.
	leastDetach = time.Second
)

// detachAfter is how long a call may hold one of the slots in flight, 0 for until it ends. A Subscription that asks for one
// delivery at a time, or for order, keeps them. Dead letters block nothing but each other.
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

// detach has a message leave the broker's limit, and its job the scheduler, while the call goes on. The event comes back if
// it is not settled AckWait after the end of its call: connecting to other addresses, a reply and the settlement take time.
func (d *Dispatcher) detach(j *job) (detached bool) {
	defer func() {
		if p := recover(); p != nil {
			d.Log.Error(fmt.Errorf("panic: %v", p), "detaching a call panicked", "stack", string(debug.Stack()))
		}
	}()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.work), settleTimeout)
	defer cancel()
	if err := j.Detach(ctx, time.Until(j.call.began.Add(d.options.Timeout))+d.options.AckWait); err != nil {
		d.Log.V(1).Info("a call that takes long keeps its slot", "reason", err.Error())
		return false
	}
	d.held.remove(j.Message)
	d.metrics.detached.Inc()
	d.metrics.detachedCalls.Inc()
	d.scheduler.detach(j)
	return true
}
