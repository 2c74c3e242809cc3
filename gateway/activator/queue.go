package activator

import (
	"container/list"
	"sync"
)

// burst is how many of the requests that waited one pod gets at a time before it has begun to answer one of them. Node.js takes
// more and answers all of them late, Python has 50 threads.
const burst = 100

// queue lets requests wait for a pod, first come first served. It is a plain value with a lock.
type queue struct {
	mu         sync.Mutex
	waiting    list.List // of chan struct{}
	unanswered int       // requests that left the queue for a pod which has not begun to answer
	usable     int       // pods
}

// enter returns nil for a request that may go on at once, and otherwise a channel that is closed when it may. It is false when
// already so many wait.
func (q *queue) enter(limit int) (turn chan struct{}, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.waiting.Len() == 0 && q.usable > 0 {
		q.unanswered++
		return nil, true
	}
	if q.waiting.Len() >= limit {
		return nil, false
	}
	turn = make(chan struct{})
	q.waiting.PushBack(turn)
	return turn, true
}

// idle reports whether a request would have to wait for a pod that takes connections.
func (q *queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.usable == 0
}

// leave ends the waiting of a request that goes away. It is false when its turn came just before.
func (q *queue) leave(turn chan struct{}) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for e := q.waiting.Front(); e != nil; e = e.Next() {
		if e.Value == turn {
			q.waiting.Remove(e)
			return true
		}
	}
	return false
}

// answered notes that a pod has begun to answer a request whose turn came, or that the request ended before.
func (q *queue) answered() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.unanswered--
	q.admit()
}

// set notes how many pods take connections.
func (q *queue) set(usable int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.usable = usable
	q.admit()
}

func (q *queue) admit() {
	for q.waiting.Len() > 0 && q.unanswered < q.usable*burst {
		front := q.waiting.Front()
		q.waiting.Remove(front)
		if turn, ok := front.Value.(chan struct{}); ok {
			close(turn)
		}
		q.unanswered++
	}
}

func (q *queue) length() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.Len()
}
