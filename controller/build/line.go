package build

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// startGrace is how long a granted build may take to show up as a Job.
	startGrace = 30 * time.Second
	// patience is how long a Function keeps its place without asking for it again.
	patience = 3 * time.Minute
)

// Place is where a Function stands that wants to build.
type Place struct {
	// Granted means that the build may begin, and that a slot is kept for it.
	Granted bool
	// Position counts from 1, Waiting is the length of the line, and Running the builds that it waits for.
	Position, Waiting, Running int
}

// line is who waits. It is not safe for concurrent use.
type line struct {
	limit int
	// held lets nobody begin.
	held    bool
	waiting map[types.NamespacedName]ticket
	// starting are those that were told to begin and have no Job yet.
	starting map[types.NamespacedName]time.Time
	// served numbers the last turn of each namespace.
	served map[string]int
	number int
}

type ticket struct {
	number int
	seen   time.Time
}

func newLine(limit int) *line {
	return &line{
		limit:    limit,
		waiting:  map[types.NamespacedName]ticket{},
		starting: map[types.NamespacedName]time.Time{},
		served:   map[string]int{},
	}
}

// enter asks for a slot. A Function that has to wait keeps its place for as long as it asks again in time.
func (l *line) enter(fn types.NamespacedName, running []types.NamespacedName, now time.Time) Place {
	l.forget(running, now)
	if _, ok := l.starting[fn]; ok {
		return Place{Granted: true}
	}
	place, ok := l.waiting[fn]
	if !ok {
		l.number++
		place.number = l.number
	}
	place.seen = now
	l.waiting[fn] = place

	active := l.active(running)
	ahead := slices.Index(l.order(), fn)
	count := len(active)
	if active[fn] { // its own earlier build makes room for this one
		count--
	}
	if !l.held && ahead < l.limit-count {
		delete(l.waiting, fn)
		l.number++
		l.served[fn.Namespace] = l.number
		l.starting[fn] = now
		return Place{Granted: true}
	}
	return Place{Position: ahead + 1, Waiting: len(l.waiting), Running: count}
}

// leave gives up the place or the slot.
func (l *line) leave(fn types.NamespacedName) {
	delete(l.waiting, fn)
	delete(l.starting, fn)
}

// next are those that would get a slot if they asked now.
func (l *line) next(running []types.NamespacedName, now time.Time) []types.NamespacedName {
	l.forget(running, now)
	if l.held {
		return nil
	}
	order := l.order()
	return order[:min(max(l.limit-len(l.active(running)), 0), len(order))]
}

// active are the Functions that build or are about to.
func (l *line) active(running []types.NamespacedName) map[types.NamespacedName]bool {
	found := make(map[types.NamespacedName]bool, len(running)+len(l.starting))
	for _, fn := range running {
		found[fn] = true
	}
	for fn := range l.starting {
		found[fn] = true
	}
	return found
}

// forget drops who has begun, who never did, and who has stopped to ask.
func (l *line) forget(running []types.NamespacedName, now time.Time) {
	for fn, since := range l.starting {
		if slices.Contains(running, fn) || now.Sub(since) > startGrace {
			delete(l.starting, fn)
		}
	}
	for fn, place := range l.waiting {
		if now.Sub(place.seen) > patience {
			delete(l.waiting, fn)
		}
	}
	if len(l.waiting) == 0 {
		clear(l.served)
	}
}

// order lets the namespace go first whose last turn is the longest ago, and everybody once before anybody twice.
func (l *line) order() []types.NamespacedName {
	byNamespace := map[string][]types.NamespacedName{}
	for fn := range l.waiting {
		byNamespace[fn.Namespace] = append(byNamespace[fn.Namespace], fn)
	}
	type turn struct {
		fn                   types.NamespacedName
		round, served, first int
	}
	turns := make([]turn, 0, len(l.waiting))
	for namespace, waiting := range byNamespace {
		slices.SortFunc(waiting, func(a, b types.NamespacedName) int {
			return cmp.Compare(l.waiting[a].number, l.waiting[b].number)
		})
		for round, fn := range waiting {
			turns = append(turns, turn{fn, round, l.served[namespace], l.waiting[waiting[0]].number})
		}
	}
	slices.SortFunc(turns, func(a, b turn) int {
		return cmp.Or(cmp.Compare(a.round, b.round), cmp.Compare(a.served, b.served), cmp.Compare(a.first, b.first))
	})
	order := make([]types.NamespacedName, len(turns))
	for i, turn := range turns {
		order[i] = turn.fn
	}
	return order
}
