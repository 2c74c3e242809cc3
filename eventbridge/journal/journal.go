package journal

import (
	"context"
	"sync"
	"time"
)

// Journal is a ring of records. Many goroutines may share one.
type Journal struct {
	capacity int

	mu      sync.Mutex
	records []Record
	added   uint64        // how many there ever were; the next one's number
	wake    chan struct{} // closed by the next record; nil while no follower waits
}

// chunk is how many records are read under the lock.
const chunk = 128

// New makes a Journal of so many records. It is nil for none.
func New(capacity int) *Journal {
	if capacity <= 0 {
		return nil
	}
	return &Journal{capacity: capacity}
}

// Add takes a record, which happened now if it says no time.
func (j *Journal) Add(r Record) {
	if j == nil {
		return
	}
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	r.own()
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.records) < j.capacity {
		j.records = append(j.records, r)
	} else {
		j.records[j.added%uint64(j.capacity)] = r
	}
	j.added++
	if j.wake != nil {
		close(j.wake)
		j.wake = nil
	}
}

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
	end, _ = j.end()
	if q.Limit <= 0 {
		return end - min(end, uint64(j.capacity)), end
	}
	from = end
	for left := q.Limit; left > 0; {
		from, left = j.back(q, from, left)
	}
	return from, end
}

// back goes back over a chunk of records, until so many of them match. None is left when there are no more.
func (j *Journal) back(q *Query, from uint64, left int) (uint64, int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	oldest := j.added - uint64(len(j.records))
	for range chunk {
		if from <= oldest || left == 0 {
			return from, 0
		}
		if from--; q.matches(&j.records[from%uint64(j.capacity)]) {
			left--
		}
	}
	return from, left
}

// visit calls yield with the records between two numbers that match, and is false when yield was.
func (j *Journal) visit(q *Query, from, end uint64, yield func(Record) bool) bool {
	var found []Record
	for from < end {
		var skipped uint64
		found, from, skipped = j.read(found[:0], q, from, end)
		if skipped > 0 && !yield(Record{Time: time.Now(), Kind: Skipped, Count: int(skipped)}) {
			return false
		}
		for _, r := range found {
			if !yield(r) {
				return false
			}
		}
	}
	return true
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

// read appends what matches of a chunk of records, from the first number on that is still there and before the end.
func (j *Journal) read(found []Record, q *Query, from, end uint64) (all []Record, next, skipped uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if oldest := j.added - uint64(len(j.records)); from < oldest {
		skipped, from = oldest-from, oldest
	}
	next = min(from+chunk, max(end, from))
	for n := from; n < next; n++ {
		if r := &j.records[n%uint64(j.capacity)]; q.matches(r) {
			found = append(found, *r)
		}
	}
	return found, next, skipped
}
