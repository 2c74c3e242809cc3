package dispatch

import (
	"context"
	"sync"
	"time"
)

// inFlight is the set of messages that are held. One timer extends them all, and only while there are some: a timer
// for each message would cost more than the delivery of a short one.
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

// lapsed reports whether a held message was not extended for so long that the broker may have given it to another replica.
func (f *inFlight) lapsed(msg Message) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	extendedAt, held := f.messages[msg]
	return held && time.Since(extendedAt) >= 2*f.interval
}

// extended notes that a message was extended.
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

// extend extends what is held, and goes on while something is.
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

// begin reports false when nothing is held or all is over.
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

// stop waits until nothing is being extended.
func (f *inFlight) stop() {
	f.mu.Lock()
	f.stopped = true
	if f.timer != nil {
		f.timer.Stop()
	}
	f.mu.Unlock()
	f.extends.Wait()
}
