package gitpoll

import (
	"container/heap"
	"time"
)

// queue sorts the repositories of each namespace by due time, and the namespaces by that of their first repository.
// Repositories that are being checked are in neither.
type queue struct {
	lines map[string]*line
	heads sorted[*line] // namespaces that do not wait for a slot
}

// line is the queue of a namespace.
type line struct {
	namespace string
	spots     sorted[*spot]
	interests int
	waits     bool // for a slot
	entry          // position among the heads
}

// spot is a repository in the line of a namespace.
type spot struct {
	of        *tracked
	line      *line
	functions int
	entry     // in the line
}

// entry is the position of an element in a heap. It holds a copy of the due time, because a repository in several lines
// moves in one after the other.
type entry struct {
	due time.Time
	at  int
}

// outside means that the element is not in the heap.
const outside = -1

// add records the interest of a Function of a namespace in a repository.
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

// remove ends an interest.
func (q *queue) remove(namespace string, repository *tracked) {
	held := repository.spots[namespace]
	held.functions--
	held.line.interests--
	if held.functions == 0 {
		delete(repository.spots, namespace)
	}
	q.place(held)
}

// move updates the position of a repository that is due at another time, or whose check has started or ended.
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

// ready returns the namespaces that have a due repository and do not wait for a slot. They wait from now on.
func (q *queue) ready(now time.Time) (namespaces []string) {
	for len(q.heads) > 0 && !q.heads[0].due.After(now) {
		l := q.heads[0]
		l.waits = true
		q.settle(l)
		namespaces = append(namespaces, l.namespace)
	}
	return namespaces
}

// first returns the repository of a namespace that has been due for longest, or nil.
func (q *queue) first(namespace string, now time.Time) *tracked {
	if l := q.lines[namespace]; l != nil && len(l.spots) > 0 && !l.due.After(now) {
		return l.spots[0].of
	}
	return nil
}

// served records that a namespace no longer waits for a slot.
func (q *queue) served(namespace string) {
	l := q.lines[namespace]
	l.waits = false
	q.settle(l)
}

func (e *entry) own() *entry { return e }

// sorted is a heap with the earliest due time first.
type sorted[T interface{ own() *entry }] []T

// set adds, moves or removes an element.
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
	jitter       = 0.2 // maximum fraction of the interval by which checks are early, so that repositories are not polled all at once
	firstRetry   = time.Second
	maxBackoff   = 10 * time.Minute
	checkTimeout = 10 * time.Second
	maxChecks    = 32 // concurrent checks, of which a namespace has at most as many as it leaves free

	// slowAnswer is the duration of a check beyond which the repository is polled less often: its checks take at most
	// one part in slowPart of the time.
	slowAnswer = 2 * time.Second
	slowPart   = 30

	// leastPause is the minimum time between two checks of a repository, whatever requests them.
	leastPause = time.Second
	// leastAsked is the minimum time between two checks that the annotation requests.
	leastAsked = 5 * time.Second
)

// attempts counts the checks of a repository in a row that failed, or were slow.
type attempts struct {
	failures, slow int
	// transient is true when the last failure may resolve itself, as with a server that is just starting, and is
	// retried soon. A server that rejects the request has answered, and is polled less and less.
	transient bool
	// took is the duration of the last check.
	took time.Duration
}

// after returns the state after one more check.
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

// nextCheck returns the delay after a check: at most the configured interval for a repository that answers in time, and
// at least the duration of a failed check, so that an unresponsive server takes at most half of the time. random is
// from 0 to 1.
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

// doubled doubles a duration so many times, up to maxBackoff or slightly more.
func doubled(wait time.Duration, times int) time.Duration {
	for range times {
		if wait >= maxBackoff {
			break
		}
		wait *= 2
	}
	return wait
}
