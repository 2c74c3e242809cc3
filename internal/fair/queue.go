package fair

import (
	"iter"
	"slices"
)

// Queue holds items by key: keys take turns, and of one key the first item comes first. The zero Queue is empty. It is not safe for
// concurrent use.
type Queue[T any] struct {
	items map[string][]T
	turns []string // the keys that have items
	len   int
}

// Len is the number of items.
func (q *Queue[T]) Len() int { return q.len }

// Push adds the last item of a key.
func (q *Queue[T]) Push(key string, item T) {
	if q.items == nil {
		q.items = map[string][]T{}
	}
	if len(q.items[key]) == 0 {
		q.turns = append(q.turns, key)
	}
	q.items[key] = append(q.items[key], item)
	q.len++
}

// Pop removes the first item of the key whose turn it is, and reports false when there is none.
func (q *Queue[T]) Pop() (item T, ok bool) {
	return q.PopFrom(func(string) bool { return true })
}

// PopFrom removes the first item of the first key in turn that may have one now.
func (q *Queue[T]) PopFrom(may func(key string) bool) (item T, ok bool) {
	i := slices.IndexFunc(q.turns, may)
	if i < 0 {
		return item, false
	}
	key := q.turns[i]
	q.turns = slices.Delete(q.turns, i, i+1)
	items := q.items[key]
	item = items[0]
	q.keep(key, slices.Delete(items, 0, 1))
	if len(q.items[key]) > 0 {
		q.turns = append(q.turns, key)
	}
	q.len--
	return item, true
}

// Remove removes the first item of a key that matches, and reports whether there was one.
func (q *Queue[T]) Remove(key string, matches func(T) bool) bool {
	items := q.items[key]
	i := slices.IndexFunc(items, matches)
	if i < 0 {
		return false
	}
	q.keep(key, slices.Delete(items, i, i+1))
	if len(q.items[key]) == 0 {
		i = slices.Index(q.turns, key)
		q.turns = slices.Delete(q.turns, i, i+1)
	}
	q.len--
	return true
}

// All yields the items in the order in which Pop would remove them.
func (q *Queue[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		for round, left := 0, q.len; left > 0; round++ {
			for _, key := range q.turns {
				if round >= len(q.items[key]) {
					continue
				}
				left--
				if !yield(q.items[key][round]) {
					return
				}
			}
		}
	}
}

func (q *Queue[T]) keep(key string, items []T) {
	if len(items) == 0 {
		delete(q.items, key)
		return
	}
	q.items[key] = items
}
