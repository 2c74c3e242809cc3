package process

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Feed has the last lines of each Function. It is safe for use by several goroutines.
type Feed struct {
	limit int

	mu     sync.Mutex
	last   uint64 // number of the newest line
	rings  map[types.NamespacedName]*ring
	change chan struct{} // closed when a line is added
}

// NewFeed makes a Feed that keeps limit lines of each Function, at least one.
func NewFeed(limit int) *Feed {
	return &Feed{limit: max(limit, 1), rings: map[types.NamespacedName]*ring{}, change: make(chan struct{})}
}

// Add adds a line. One without a time gets the present.
func (f *Feed) Add(line Line) {
	if line.Time.IsZero() {
		line.Time = time.Now()
	}
	name := types.NamespacedName{Namespace: line.Namespace, Name: line.Function}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rings[name] == nil {
		f.rings[name] = &ring{}
	}
	f.last++
	f.rings[name].add(entry{number: f.last, line: line}, f.limit)
	close(f.change)
	f.change = make(chan struct{})
}

// Forget drops the lines of a Function that is no more.
func (f *Feed) Forget(fn types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.rings, fn)
}

// Recent lists the last n lines of a Function, oldest first; of all of them for the zero name.
func (f *Feed) Recent(fn types.NamespacedName, n int) []Line {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, _ := f.since(fn, 0)
	lines := make([]Line, 0, min(len(found), max(n, 0)))
	for _, e := range found[max(len(found)-max(n, 0), 0):] {
		lines = append(lines, e.line)
	}
	return lines
}

// Follow calls handle with the last tail lines of a Function, of all of them for the zero name, and then with each new
// one, until the context ends. Calls come one at a time. A handle that is slower than the Function misses lines, and
// gets a line of stream Rouse in their place.
func (f *Feed) Follow(ctx context.Context, fn types.NamespacedName, tail int, handle func(Line)) {
	seen, backlog := uint64(0), true
	for {
		f.mu.Lock()
		found, missed := f.since(fn, seen)
		seen = f.last
		change := f.change
		f.mu.Unlock()
		if backlog {
			found, missed, backlog = found[max(len(found)-max(tail, 0), 0):], false, false
		}
		if missed {
			handle(Line{
				Time: time.Now(), Namespace: fn.Namespace, Function: fn.Name, Stream: Rouse,
				Text: "lines are missing here: they came faster than they were read",
			})
		}
		for _, e := range found {
			if ctx.Err() != nil {
				return
			}
			handle(e.line)
		}
		select {
		case <-ctx.Done():
			return
		case <-change:
		}
	}
}

// since lists what came after a number in the order in which it came, and reports whether some of it is gone.
func (f *Feed) since(fn types.NamespacedName, number uint64) (found []entry, missed bool) {
	if fn != (types.NamespacedName{}) {
		if r := f.rings[fn]; r != nil {
			return r.since(number), r.gone > number
		}
		return nil, false
	}
	for _, r := range f.rings {
		found = append(found, r.since(number)...)
		missed = missed || r.gone > number
	}
	slices.SortFunc(found, func(a, b entry) int { return cmp.Compare(a.number, b.number) })
	return found, missed
}
