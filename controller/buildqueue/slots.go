package buildqueue

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/fair"
)

// Limits bound how much is built at a time.
type Limits struct {
	// Total is how many builds may run in the cluster.
	Total int
	// PerNamespace is how many of them one namespace may have. 0: half of them, rounded up, so that what is left for all
	// others is as much as one can take.
	PerNamespace int
	// Longest is how long one build may take. A slot is not held for longer, whatever the Job says.
	Longest time.Duration
}

// share is how many slots one namespace may hold.
func (l Limits) share() int {
	if l.PerNamespace == 0 {
		return (l.Total + 1) / 2
	}
	return min(l.PerNamespace, l.Total)
}

// holdable is how long a slot may be held: a build's time, and what its Job needs to begin and to end.
func (l Limits) holdable() time.Duration { return l.Longest + 2*startGrace }

const (
	// startGrace is how long a granted build may take to show up as a Job.
	startGrace = 30 * time.Second
	// timeout is how long a Function keeps its position without asking for it again.
	timeout = 3 * time.Minute
)

// QueueStatus is where a Function stands that wants to build.
type QueueStatus struct {
	// Granted means that the build may begin, and that a slot is kept for it.
	Granted bool
	// Position counts from 1, Waiting is the length of the queue, and Running the builds that it waits for.
	Position, Waiting, Running int
	// Share is not 0 when there are free slots, but the Function's namespace holds that many, which is all that it may.
	Share int
}

// slots are who builds and who waits. They are not safe for concurrent use.
type slots struct {
	limits Limits
	// excluded are Functions of which no build begins for a moment.
	excluded map[types.NamespacedName]struct{}
	// started is when the running builds were read first; zero: they were not.
	started time.Time
	taken   map[types.NamespacedName]slot
	waiting map[types.NamespacedName]entry
	// served numbers the last grant of each namespace.
	served map[string]int
	number int
}

// slot is one that a Function was granted.
type slot struct {
	granted time.Time
	// seen means that its Job was there.
	seen bool
	// replaces means that an earlier Job of the Function may still be the one that is there.
	replaces bool
	// left means that the Function has no use for it any more: it is free when the Job is gone.
	left bool
}

type entry struct {
	number int
	asked  time.Time
}

func newSlots(limits Limits) *slots {
	return &slots{
		limits: limits, excluded: map[types.NamespacedName]struct{}{},
		taken: map[types.NamespacedName]slot{}, waiting: map[types.NamespacedName]entry{}, served: map[string]int{},
	}
}

// enter asks for a slot. A Function that has to wait keeps its position for as long as it asks again in time.
func (s *slots) enter(fn types.NamespacedName, running []types.NamespacedName, now time.Time) QueueStatus {
	s.update(running, now)
	runs := slices.Contains(running, fn)
	if held, ok := s.taken[fn]; ok && !held.left && !runs {
		return QueueStatus{Granted: true} // its Job is yet to be seen
	}
	waits, ok := s.waiting[fn]
	if !ok {
		s.number++
		waits.number = s.number
	}
	waits.asked = now
	s.waiting[fn] = waits

	if slices.Contains(s.eligible(fn), fn) {
		delete(s.waiting, fn)
		s.number++
		s.served[fn.Namespace] = s.number
		s.taken[fn] = slot{granted: now, replaces: runs}
		return QueueStatus{Granted: true}
	}
	total, own := s.count(fn)
	status := QueueStatus{Position: slices.Index(s.order(), fn) + 1, Waiting: len(s.waiting), Running: total}
	if total < s.limits.Total && own[fn.Namespace] >= s.limits.share() {
		status.Share = s.limits.share()
	}
	return status
}

// exclude lets no build of a Function begin, unless one runs. What runs without a slot was begun by an earlier process, or is a Job that a
// user has made, which keeps nothing for longer than a build.
func (s *slots) exclude(fn types.NamespacedName, running []types.NamespacedName, now time.Time) bool {
	s.update(running, now)
	_, holds := s.taken[fn]
	_, excluded := s.excluded[fn]
	former := slices.Contains(running, fn) && now.Sub(s.started) <= s.limits.holdable()
	if holds || excluded || former {
		return false
	}
	s.excluded[fn] = struct{}{}
	return true
}

// leave gives up the position or the slot.
func (s *slots) leave(fn types.NamespacedName) {
	delete(s.waiting, fn)
	held, ok := s.taken[fn]
	switch {
	case !ok:
	case held.seen || held.replaces: // its Job may still run
		held.left = true
		s.taken[fn] = held
	default:
		delete(s.taken, fn)
	}
}

// next are those that would get a slot if they asked now.
func (s *slots) next(running []types.NamespacedName, now time.Time) []types.NamespacedName {
	s.update(running, now)
	return s.eligible(types.NamespacedName{})
}

// eligible are the first in the queue for which there is a slot. That of asking counts as free: its own earlier build
// frees its slot for it.
func (s *slots) eligible(asking types.NamespacedName) []types.NamespacedName {
	total, perNamespace := s.count(asking)
	var found []types.NamespacedName
	for _, fn := range s.order() {
		if total >= s.limits.Total {
			break
		}
		if _, excluded := s.excluded[fn]; !excluded && perNamespace[fn.Namespace] < s.limits.share() {
			found = append(found, fn)
			total++
			perNamespace[fn.Namespace]++
		}
	}
	return found
}

// count counts the slots that others than asking hold.
func (s *slots) count(asking types.NamespacedName) (total int, perNamespace map[string]int) {
	perNamespace = map[string]int{}
	for fn := range s.taken {
		if fn != asking {
			total++
			perNamespace[fn.Namespace]++
		}
	}
	return total, perNamespace
}

// update frees slots by what runs, and drops who has stopped to ask.
func (s *slots) update(running []types.NamespacedName, now time.Time) {
	if s.started.IsZero() {
		s.start(running, now)
	}
	for fn, held := range s.taken {
		age := now.Sub(held.granted)
		switch runs := slices.Contains(running, fn); {
		case age > s.limits.holdable():
			delete(s.taken, fn)
		case runs:
			held.seen = held.seen || !held.replaces
			s.taken[fn] = held
		case held.seen, held.left, age > startGrace:
			delete(s.taken, fn)
		default:
			held.replaces = false
			s.taken[fn] = held
		}
	}
	for fn, waits := range s.waiting {
		if now.Sub(waits.asked) > timeout {
			delete(s.waiting, fn)
		}
	}
	if len(s.waiting) == 0 && len(s.taken) == 0 { // a grant counts for the order while its build runs
		clear(s.served)
	}
}

// start takes over the builds of an earlier process. They cannot be distinguished from Jobs that users have made
// for their own Functions, so that no namespace gets more than its share.
func (s *slots) start(running []types.NamespacedName, now time.Time) {
	s.started = now
	perNamespace := map[string]int{}
	for _, fn := range running {
		if perNamespace[fn.Namespace] < s.limits.share() {
			perNamespace[fn.Namespace]++
			s.taken[fn] = slot{granted: now, seen: true}
		}
	}
}

// order has the namespaces in turn, and begins with the one whose last grant is the longest ago.
func (s *slots) order() []types.NamespacedName {
	var turns fair.Queue[types.NamespacedName]
	for _, fn := range slices.SortedFunc(maps.Keys(s.waiting), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(s.served[a.Namespace], s.served[b.Namespace]), cmp.Compare(s.waiting[a].number, s.waiting[b].number))
	}) {
		turns.Push(fn.Namespace, fn)
	}
	return slices.Collect(turns.All())
}
