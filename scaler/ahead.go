package scaler

import (
	"context"
	"sync"
)

// aheads listen for publishes, and for announcements that an event will be published soon: both wake. A Subscription with
// wildcards is woken by publishes alone.
type aheads struct {
	listener Listener

	mu        sync.Mutex
	bySubject map[string]map[*expectation]bool
}

// expectation is one call of OnPublish.
type expectation struct {
	subjects []string
	notify   func()
	ended    bool
	stop     func() // nil before the listener is in place
}

func newAheads(listener Listener) *aheads {
	return &aheads{listener: listener, bySubject: map[string]map[*expectation]bool{}}
}

// OnPublish calls notify once, at the first message on any of the subjects, or announcement of one.
func (a *aheads) OnPublish(subjects []string, notify func()) (stop func(), err error) {
	e := &expectation{subjects: subjects, notify: notify}
	a.mu.Lock()
	for _, subject := range subjects {
		if a.bySubject[subject] == nil {
			a.bySubject[subject] = map[*expectation]bool{}
		}
		a.bySubject[subject][e] = true
	}
	a.mu.Unlock()
	stopListening, err := a.listener.OnPublish(subjects, func() { a.fire(e) })
	if err != nil {
		a.end(e)
		return nil, err
	}
	a.mu.Lock()
	e.stop = stopListening
	ended := e.ended
	a.mu.Unlock()
	if ended { // it was announced meanwhile
		stopListening()
	}
	return func() { a.end(e) }, nil
}

func (a *aheads) fire(e *expectation) {
	if a.end(e) {
		e.notify()
	}
}

// end reports whether it was this call that ended the expectation.
func (a *aheads) end(e *expectation) bool {
	a.mu.Lock()
	ended := e.ended
	e.ended = true
	for _, subject := range e.subjects {
		delete(a.bySubject[subject], e)
		if len(a.bySubject[subject]) == 0 {
			delete(a.bySubject, subject)
		}
	}
	stop := e.stop
	a.mu.Unlock()
	if stop != nil {
		stop()
	}
	return !ended
}

// run follows the announcements until ctx ends.
func (a *aheads) run(ctx context.Context) error {
	return a.listener.WatchAhead(ctx, func(subject string) {
		a.mu.Lock()
		var expecting []*expectation
		for e := range a.bySubject[subject] {
			expecting = append(expecting, e)
		}
		a.mu.Unlock()
		for _, e := range expecting {
			a.fire(e)
		}
	})
}
