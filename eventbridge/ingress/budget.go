package ingress

import (
	"container/list"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

var errNoMemory = errors.New("too many bytes of other requests are being stored")

const (
	// budgetWait bounds how long a request waits for the bytes of slower ones, which are given back by then.
	budgetWait = time.Second
	// budgetPollInterval is how often it polls.
	budgetPollInterval = time.Millisecond
)

// budget bounds the bytes of all requests that are in memory at a time. When it is exhausted, requests that are still
// arriving are evicted, those first that have been arriving longest: however many slow ones there are, they do not block a
// publisher that sends a request at once.
type budget struct {
	limit int64
	used  atomic.Int64

	mu       sync.Mutex
	arriving list.List // of *arrival, the oldest first
}

func (b *budget) acquire(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) release(n int64) { b.used.Add(-n) }

// acquireFrom takes bytes, if need be those of requests that have been arriving for longer than by. nil is one that has
// just come.
func (b *budget) acquireFrom(n int64, by *arrival) error {
	if b.acquire(n) {
		return nil
	}
	late := time.Now().Add(budgetWait)
	for b.evict(n, by) && time.Now().Before(late) {
		time.Sleep(budgetPollInterval)
		if b.acquire(n) {
			return nil
		}
	}
	if b.acquire(n) { // what came back since the last poll
		return nil
	}
	return errNoMemory
}

// evict ends the oldest arrivals that have to go for n bytes to be free, and none when that would not suffice.
func (b *budget) evict(n int64, by *arrival) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if by != nil && by.evicted {
		return false
	}
	missing := b.used.Load() + n - b.limit
	last := b.arriving.Front()
	for ; missing > 0 && last != nil && last.Value.(*arrival) != by; last = last.Next() {
		missing -= last.Value.(*arrival).held
	}
	if missing > 0 {
		return false
	}
	for e := b.arriving.Front(); e != last; e = e.Next() {
		e.Value.(*arrival).evict()
	}
	return true
}
