package broker

import "sync"

// fairQueue works on what a bridge has in hand of one level: maxForwards at a time, and round robin for the namespaces that have
// more in hand. It never has more than the level's consumer shows.
type lane struct {
	running sync.WaitGroup

	mu     sync.Mutex
	busy   int
	queues map[string][]func() // by namespace
	turns  []string            // namespaces that wait, the next one first
}

func newLane() *lane { return &lane{queues: map[string][]func(){}} }

// do has the work done soon.
func (l *lane) do(namespace string, work func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy < maxForwards {
		l.busy++
		l.running.Go(func() { l.work(work) })
		return
	}
	if len(l.queues[namespace]) == 0 {
		l.turns = append(l.turns, namespace)
	}
	l.queues[namespace] = append(l.queues[namespace], work)
}

// work goes on until nothing waits.
func (l *lane) work(work func()) {
	for ; work != nil; work = l.next() {
		work()
	}
}

func (l *lane) next() func() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.turns) == 0 {
		l.busy--
		return nil
	}
	namespace := l.turns[0]
	l.turns = l.turns[1:]
	queue := l.queues[namespace]
	if len(queue) == 1 {
		delete(l.queues, namespace)
	} else {
		l.queues[namespace] = queue[1:]
		l.turns = append(l.turns, namespace)
	}
	return queue[0]
}
