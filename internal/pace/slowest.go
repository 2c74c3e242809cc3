package pace

import (
	"cmp"
	"iter"
	"slices"
)

// Slow is a client that the server waits for.
type Slow[T any] struct {
	Client T
	Holder string // whose share it counts for
	Since  int64  // when the wait began, in nanoseconds of Unix time
}

// Slowest returns up to most clients, those first that have been waited for longest, of the holder that has most of them.
func Slowest[T any](all iter.Seq[Slow[T]], most int) []Slow[T] {
	byHolder := map[string][]Slow[T]{}
	var largest []Slow[T]
	for each := range all {
		byHolder[each.Holder] = append(byHolder[each.Holder], each)
		if len(byHolder[each.Holder]) > len(largest) {
			largest = byHolder[each.Holder]
		}
	}
	slices.SortFunc(largest, func(a, b Slow[T]) int { return cmp.Compare(a.Since, b.Since) })
	return largest[:min(most, len(largest))]
}
