package journal

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Journal is a ring of blocks of records. Many goroutines may share one.
type Journal struct {
	capacity uint64

	mu     sync.Mutex
	blocks []block       // the oldest first; only the last one is being written
	names  index         // of the last one
	added  uint64        // how many records there ever were; the next one's number
	wake   chan struct{} // closed by the next record; nil while no follower waits
}

// New makes a Journal of so many records. It is nil for none.
func New(capacity int) *Journal {
	if capacity <= 0 {
		return nil
	}
	return &Journal{capacity: uint64(capacity), names: index{numbers: map[string]uint64{}}}
}

// Add takes a record, which happened now if it says no time.
func (j *Journal) Add(r Record) {
	if j == nil {
		return
	}
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.blocks) == 0 || j.blocks[len(j.blocks)-1].count == blockRecords {
		j.grow()
	}
	j.blocks[len(j.blocks)-1].add(&r, &j.names)
	j.added++
	if j.wake != nil {
		close(j.wake)
		j.wake = nil
	}
}

// grow makes the next block, which will be about as large as the one before, and drops those that have only records
// beyond the capacity.
func (j *Journal) grow() {
	next := block{first: j.added}
	if last := len(j.blocks) - 1; last >= 0 {
		next.data = make([]byte, 0, len(j.blocks[last].data)+len(j.blocks[last].data)/8)
	}
	j.names.clear()
	j.blocks = append(slices.DeleteFunc(j.blocks, func(b block) bool { return b.first+blockRecords <= j.oldest() }), next)
}

// oldest is the number of the first record that is remembered.
func (j *Journal) oldest() uint64 { return j.added - min(j.added, j.capacity) }

// Recent are the records that are remembered, the oldest first.
func (j *Journal) Recent(q Query) (found []Record) {
	j.Each(q, func(r Record) bool {
		if r.Kind != Skipped {
			found = append(found, r)
		}
		return true
	})
	return found
}

// Each calls yield with the records that are remembered, the oldest first, until it returns false. It holds a few of them at a
// time: when the ring turns over while yield works, a record of the kind Skipped says how many are missing.
func (j *Journal) Each(q Query, yield func(Record) bool) {
	if j != nil {
		from, end := j.remembered(&q)
		j.visit(&q, from, end, yield)
	}
}

// Follow is Each, and goes on with the records that come, until ctx ends. With Query.Since now it gives the new ones alone.
func (j *Journal) Follow(ctx context.Context, q Query, yield func(Record)) {
	if j == nil {
		<-ctx.Done()
		return
	}
	next, end := j.remembered(&q)
	for j.visit(&q, next, end, func(r Record) bool {
		if ctx.Err() != nil {
			return false
		}
		yield(r)
		return true
	}) {
		next = end
		var more <-chan struct{}
		for end, more = j.end(); next == end; end, more = j.end() {
			select {
			case <-ctx.Done():
				return
			case <-more:
			}
		}
	}
}

// remembered are the numbers of the first record that the query asks for and of the next that will be added.
func (j *Journal) remembered(q *Query) (from, end uint64) {
	j.mu.Lock()
	blocks, oldest, end := slices.Clone(j.blocks), j.oldest(), j.added
	j.mu.Unlock()
	if q.Limit <= 0 {
		return oldest, end
	}
	left := q.Limit
	for _, b := range slices.Backward(blocks) {
		matching := make([]uint64, 0, blockRecords)
		b.each(oldest, end, func(number uint64, r Record) bool {
			if q.matches(&r) {
				matching = append(matching, number)
			}
			return true
		})
		if len(matching) >= left {
			return matching[len(matching)-left], end
		}
		left -= len(matching)
	}
	return oldest, end
}

// visit calls yield with the records between two numbers that match, and is false when yield was.
func (j *Journal) visit(q *Query, from, end uint64, yield func(Record) bool) bool {
	for from < end {
		b, skipped := j.find(from, end)
		if skipped > 0 && !yield(Record{Time: time.Now(), Kind: Skipped, Count: int(skipped)}) {
			return false
		}
		if !b.each(from+skipped, end, func(_ uint64, r Record) bool { return !q.matches(&r) || yield(r) }) {
			return false
		}
		from = max(from+skipped, b.first+uint64(b.count))
	}
	return true
}

// find returns the block of the first record from one number on that is remembered, and how many before that and before the end
// are not. The block is as it is now, whatever is added.
func (j *Journal) find(from, end uint64) (b block, skipped uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if oldest := j.oldest(); from < oldest {
		skipped = min(oldest, end) - from
		from = oldest
	}
	return j.blocks[(from-j.blocks[0].first)/blockRecords], skipped
}

// end is the number of the next record, and what is closed when it comes.
func (j *Journal) end() (uint64, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.wake == nil {
		j.wake = make(chan struct{})
	}
	return j.added, j.wake
}
