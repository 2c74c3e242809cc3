package gitpoll

import (
	"container/heap"
	"time"
)

// queue has the repositories of each namespace in the order in which they are due, and the namespaces in that of their first one. Those
// that are being checked are in none.
type queue struct {
	lines map[string]*line
	heads sorted[*line] // of namespaces that do not wait for a place
}

// line is that of a namespace.
type line struct {
	namespace string
	spots     sorted[*spot]
	interests int
	waits     bool // for a place
	entry          // among the heads
}

// spot is that of a repository in the line of a namespace.
type spot struct {
	of        *tracked
	line      *line
	functions int
	entry     // in the line
}

// entry is that of an element of a heap. It has a copy of the time, as a repository in several lines moves in one after the other.
type entry struct {
	due time.Time
	at  int
}

const outside = -1 // of the heap

// add notes the interest of a Function of a namespace in a repository.
func (q *queue) add(namespace string, repository *tracked) {
	in := q.lines[namespace]
	if in == nil {
		in = &line{namespace: namespace, entry: entry{at: outside}}
		q.lines[namespace] = in
	}
	in.interests++
	held := repository.spots[namespace]
	if held == nil {
		held = &spot{of: repository, line: in, entry: entry{at: outside}}
		repository.spots[namespace] = held
	}
	held.functions++
	q.place(held)
}

// remove ends such an interest.
func (q *queue) remove(namespace string, repository *tracked) {
	held := repository.spots[namespace]
	held.functions--
	held.line.interests--
	if held.functions == 0 {
		delete(repository.spots, namespace)
	}
	q.place(held)
}

// move is called when a repository is due at another time, or its check has begun or ended.
func (q *queue) move(repository *tracked) {
	for _, each := range repository.spots {
		q.place(each)
	}
}

func (q *queue) place(s *spot) {
	s.due = s.of.due
	s.line.spots.set(s, s.functions > 0 && !s.of.busy)
	q.settle(s.line)
}

func (q *queue) settle(l *line) {
	if len(l.spots) > 0 {
		l.due = l.spots[0].due
	}
	q.heads.set(l, len(l.spots) > 0 && !l.waits)
	if l.interests == 0 && !l.waits {
		delete(q.lines, l.namespace)
	}
}

// ready returns the namespaces that have a repository which is due and do not wait for a place, as they do from now on.
func (q *queue) ready(now time.Time) (namespaces []string) {
	for len(q.heads) > 0 && !q.heads[0].due.After(now) {
		l := q.heads[0]
		l.waits = true
		q.settle(l)
		namespaces = append(namespaces, l.namespace)
	}
	return namespaces
}

// first is the repository of a namespace that is due for longest, or nil.
func (q *queue) first(namespace string, now time.Time) *tracked {
	if l := q.lines[namespace]; l != nil && len(l.spots) > 0 && !l.due.After(now) {
		return l.spots[0].of
	}
	return nil
}

// served notes that a namespace waits for no place any more.
func (q *queue) served(namespace string) {
	l := q.lines[namespace]
	l.waits = false
	q.settle(l)
}

func (e *entry) own() *entry { return e }

// sorted is a heap in which what is due first is the first.
type sorted[T interface{ own() *entry }] []T

// set has an element in the heap, at its place, or not.
func (h *sorted[T]) set(x T, inside bool) {
	switch at := x.own().at; {
	case at == outside && inside:
		heap.Push(h, x)
	case at != outside && inside:
		heap.Fix(h, at)
	case at != outside:
		heap.Remove(h, at)
	}
}

func (h *sorted[T]) Len() int           { return len(*h) }
func (h *sorted[T]) Less(i, j int) bool { return (*h)[i].own().due.Before((*h)[j].own().due) }

func (h *sorted[T]) Swap(i, j int) {
	all := *h
	all[i], all[j] = all[j], all[i]
	all[i].own().at, all[j].own().at = i, j
}

func (h *sorted[T]) Push(x any) {
	added := x.(T)
	added.own().at = len(*h)
	*h = append(*h, added)
}

func (h *sorted[T]) Pop() any {
	var none T
	last := len(*h) - 1
	gone := (*h)[last]
	(*h)[last] = none
	*h = (*h)[:last]
	gone.own().at = outside
	return gone
}

const (
	jitter       = 0.2 // of the interval at most earlier, so that repositories are not asked all at once
	firstRetry   = time.Second
	maxBackoff   = 10 * time.Minute
	checkTimeout = 10 * time.Second
	maxChecks    = 32 // at a time, of which a namespace has no more than it leaves free

	// slowAnswer is how long a check may take before the repository is asked less often. Where it answers at last, its checks
	// take no more than one part of so many of the time.
	slowAnswer = 2 * time.Second
	slowPart   = 30

	// leastPause is between two checks of a repository, whatever asks for them.
	leastPause = time.Second
	// leastAsked is between two checks that the annotation asks for.
	leastAsked = 5 * time.Second
)

// attempts are the checks of a repository that failed, or were slow, without another one between them.
type attempts struct {
	failures, slow int
	// transient is true when the last failure may end by itself, as with a server that is just starting. That is soon
	// checked again. A server that refuses us has an answer, and the longer it stays the less it is asked.
	transient bool
	// took is how long the last one lasted.
	took time.Duration
}

// after is what is known after one more check.
func (a attempts) after(failed, transient bool, took time.Duration) attempts {
	next := attempts{took: took}
	if failed {
		next.failures, next.transient = a.failures+1, transient
	}
	if took > slowAnswer {
		next.slow = a.slow + 1
	}
	return next
}

// nextCheck is how long to wait after a check: never longer than was promised for a repository that answers in time, and never less
// than a check takes that fails, so that a server which does not answer costs half of the time at most. random is from 0 to 1.
func nextCheck(interval time.Duration, last attempts, random float64) time.Duration {
	wait := interval
	switch {
	case last.failures > 0:
		wait = backoff(interval, last)
	case last.slow > 0:
		wait = max(interval, min(doubled(2*interval, last.slow-1), slowPart*last.took))
	}
	return time.Duration(float64(wait) * (1 - jitter*random))
}

func backoff(interval time.Duration, last attempts) time.Duration {
	first := firstRetry
	if !last.transient {
		first = 2 * interval
	}
	most := max(interval, maxBackoff)
	return max(min(doubled(first, last.failures-1), most), last.took)
}

// doubled is a duration doubled so many times, up to maxBackoff or a little more.
func doubled(wait time.Duration, times int) time.Duration {
	for range times {
		if wait >= maxBackoff {
			break
		}
		wait *= 2
	}
	return wait
}
