package broker

import "sync"

// fairQueue works on what a bridge has in hand of one level: maxForwards at a time, and round robin for the namespaces that have
// more in hand. It never has more than the level's consumer shows.
type fairQueue struct {
	running sync.WaitGroup

	mu      sync.Mutex
	busy    int
	queues  map[string][]func() // by namespace
	waiting []string            // namespaces that wait, the next one first
}

func newFairQueue() *fairQueue { return &fairQueue{queues: map[string][]func(){}} }

// do has the work done soon.
func (l *fairQueue) do(namespace string, work func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy < maxForwards {
		l.busy++
		l.running.Go(func() { l.work(work) })
		return
	}
	if len(l.queues[namespace]) == 0 {
		l.waiting = append(l.waiting, namespace)
	}
	l.queues[namespace] = append(l.queues[namespace], work)
}

// work goes on until nothing waits.
func (l *fairQueue) work(work func()) {
	for ; work != nil; work = l.next() {
		work()
	}
}

func (l *fairQueue) next() func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.busy--
		return nil
	}
	namespace := l.waiting[0]
	l.waiting = l.waiting[1:]
	queue := l.queues[namespace]
	if len(queue) == 1 {
		delete(l.queues, namespace)
	} else {
		l.queues[namespace] = queue[1:]
		l.waiting = append(l.waiting, namespace)
	}
	return queue[0]
}
