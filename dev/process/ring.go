package process

import "slices"

// entry is a line with its position in the order of all lines.
type entry struct {
	number uint64
	line   Line
}

// ring has the last lines of one Function.
type ring struct {
	entries []entry // entries[next] is the oldest once the ring is full
	next    int
	gone    uint64 // number of the last line that was driven out
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

// since lists, oldest first, what came after a number.
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
