package process

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// The streams of a Line.
const (
	Stdout = "stdout"
	Stderr = "stderr"
	Rouse  = "rouse" // messages of local mode about a Function
)

// Line is a line that a Function printed, or a message of local mode about it.
type Line struct {
	Time      time.Time `json:"time"`
	Namespace string    `json:"namespace"`
	Function  string    `json:"function"`
	// Replica is the name of the process, such as "pricing-2"; empty when the line concerns none.
	Replica string `json:"replica"`
	// Stream is Stdout, Stderr or Rouse.
	Stream string `json:"stream"`
	Text   string `json:"text"`
	// Problem marks a message about why a Function does not run.
	Problem bool `json:"-"`
}

// Feed holds the last lines of each Function. It is safe for concurrent use.
type Feed struct {
	limit int

	mu     sync.Mutex
	last   uint64 // number of the newest line
	rings  map[types.NamespacedName]*ring
	change chan struct{} // closed when a line is added
}

// NewFeed returns a Feed that holds limit lines of each Function, at least one.
func NewFeed(limit int) *Feed {
	return &Feed{limit: max(limit, 1), rings: map[types.NamespacedName]*ring{}, change: make(chan struct{})}
}

// Add adds a line. The time defaults to now.
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

// Forget drops the lines of a deleted Function.
func (f *Feed) Forget(fn types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.rings, fn)
}

// Recent returns the last n lines of a Function, oldest first; of all Functions for the zero name.
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

// Follow calls handle with the last tail lines of a Function, of all Functions for the zero name, and then with each new one, until the
// context ends. Calls are sequential. A handle that is slower than the Function misses lines, and gets a line of stream Rouse in their
// place.
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

// since returns the lines after a number in order, and reports whether some of them were dropped.
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

// entry is a line with its position in the order of all lines.
type entry struct {
	number uint64
	line   Line
}

// ring holds the last lines of one Function.
type ring struct {
	entries []entry // entries[next] is the oldest once the ring is full
	next    int
	gone    uint64 // number of the last line that was dropped
}

func (r *ring) add(e entry, limit int) {
	if len(r.entries) < limit {
		r.entries = append(r.entries, e)
		return
	}
	r.gone = r.entries[r.next].number
	r.entries[r.next] = e
	r.next = (r.next + 1) % limit
}

// since returns the lines after a number, oldest first.
func (r *ring) since(number uint64) []entry {
	ordered := slices.Concat(r.entries[r.next:], r.entries[:r.next])
	first, _ := slices.BinarySearchFunc(ordered, number+1, func(e entry, n uint64) int {
		switch {
		case e.number < n:
			return -1
		case e.number > n:
			return 1
		}
		return 0
	})
	return ordered[first:]
}
