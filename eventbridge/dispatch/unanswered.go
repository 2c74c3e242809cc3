package dispatch

import (
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
