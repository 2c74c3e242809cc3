package buildqueue

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/fair"
)

// Limits bounds the concurrent builds.
type Limits struct {
	// Total bounds the builds in the cluster.
	Total int
	// PerNamespace bounds the builds of one namespace. 0: half, rounded up, so that a namespace leaves the others as
	// much as it takes.
	PerNamespace int
	// Longest bounds the duration of one build. A slot is not held for longer, whatever the Job's status.
	Longest time.Duration
}

// share returns the number of slots that one namespace may hold.
func (l Limits) share() int {
	if l.PerNamespace == 0 {
		return (l.Total + 1) / 2
	}
	return min(l.PerNamespace, l.Total)
}

// holdable returns how long a slot may be held: the duration of a build, and the time that its Job needs to start and
// to end.
func (l Limits) holdable() time.Duration { return l.Longest + 2*startGrace }

const (
	// startGrace is how long a granted build may take to appear as a Job.
	startGrace = 30 * time.Second
	// timeout is how long a Function keeps its position without requesting it again.
	timeout = 3 * time.Minute
)

// QueueStatus is the position of a Function in the queue.
type QueueStatus struct {
	// Granted means that the build may start, and that a slot is reserved for it.
	Granted bool
	// Position counts from 1, Waiting is the length of the queue, and Running the number of builds that it waits for.
	Position, Waiting, Running int
	// Share is not 0 when there are free slots, but the Function's namespace holds its full share, which is Share.
	Share int
}

// slots holds the running and the waiting builds. It is not safe for concurrent use.
type slots struct {
	limits Limits
	// excluded holds Functions of which no build starts for a moment.
	excluded map[types.NamespacedName]struct{}
	// started is when the running builds were first read; zero: not yet.
	started time.Time
	taken   map[types.NamespacedName]slot
	waiting map[types.NamespacedName]entry
	// served is the number of the last grant of each namespace.
	served map[string]int
	number int
}

// slot is granted to a Function.
type slot struct {
	granted time.Time
	// began means that its Job was created, seen that it was listed.
	began, seen bool
	// replaces means that an existing Job may be an earlier one of the Function.
	replaces bool
	// left means that the Function no longer needs the slot: it is free once the Job is gone.
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

// enter requests a slot. A Function that has to wait keeps its position as long as it repeats the request in time.
func (s *slots) enter(fn types.NamespacedName, running []types.NamespacedName, now time.Time) QueueStatus {
	s.update(running, now)
	runs := slices.Contains(running, fn)
	if held, ok := s.taken[fn]; ok && !held.left && !runs {
		return QueueStatus{Granted: true} // its Job has not appeared yet
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

// exclude lets no build of a Function start, unless one runs. A Job without a slot was started by an earlier process,
// or made by a user; it blocks nothing for longer than a build may take.
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

// began notes that a granted build has its Job.
func (s *slots) began(fn types.NamespacedName) {
	if held, ok := s.taken[fn]; ok {
		held.began = true
		s.taken[fn] = held
	}
}

// leave gives up the position or the slot.
func (s *slots) leave(fn types.NamespacedName) {
	delete(s.waiting, fn)
	held, ok := s.taken[fn]
	switch {
	case !ok:
	case held.began || held.seen || held.replaces: // its Job may still run
		held.left = true
		s.taken[fn] = held
	default:
		delete(s.taken, fn)
	}
}

// next returns the Functions that would get a slot if they requested one now.
func (s *slots) next(running []types.NamespacedName, now time.Time) []types.NamespacedName {
	s.update(running, now)
	return s.eligible(types.NamespacedName{})
}

// eligible returns the first Functions in the queue for which there is a slot. The slot of asking counts as free: its
// own earlier build frees it.
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

// count counts the slots that Functions other than asking hold.
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

// update frees the slots of builds that have ended, and drops Functions that stopped requesting one.
func (s *slots) update(running []types.NamespacedName, now time.Time) {
	if s.started.IsZero() {
		s.start(running, now)
	}
	for fn, held := range s.taken {
		if held.observe(slices.Contains(running, fn), now.Sub(held.granted), s.limits.holdable()) {
			s.taken[fn] = held
		} else {
			delete(s.taken, fn)
		}
	}
	for fn, waits := range s.waiting {
		if now.Sub(waits.asked) > timeout {
			delete(s.waiting, fn)
		}
	}
	if len(s.waiting) == 0 && len(s.taken) == 0 { // a grant affects the order while its build runs
		clear(s.served)
	}
}

// observe notes whether a slot's Job runs, and reports whether the slot is still held.
func (s *slot) observe(runs bool, age, holdable time.Duration) bool {
	switch {
	case age > holdable:
		return false
	case runs:
		s.seen = s.seen || !s.replaces
	case s.seen, s.left && !s.began, age > startGrace:
		return false
	default:
		s.replaces = false
	}
	return true
}

// start takes over the builds of an earlier process. They cannot be distinguished from Jobs that users made for their
// own Functions, so no namespace gets more than its share.
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

// order returns the Functions with namespaces in round-robin order, starting with the namespace whose last grant is the
// oldest.
func (s *slots) order() []types.NamespacedName {
	var turns fair.Queue[types.NamespacedName]
	for _, fn := range slices.SortedFunc(maps.Keys(s.waiting), func(a, b types.NamespacedName) int {
		return cmp.Or(cmp.Compare(s.served[a.Namespace], s.served[b.Namespace]), cmp.Compare(s.waiting[a].number, s.waiting[b].number))
	}) {
		turns.Push(fn.Namespace, fn)
	}
	return slices.Collect(turns.All())
}
