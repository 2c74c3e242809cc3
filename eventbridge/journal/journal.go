package journal

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Journal is a ring of records. Many goroutines may share one.
type Journal struct {
	capacity int

	mu      sync.Mutex
	records []Record
	added   uint64        // how many there ever were; the next one's number
	wake    chan struct{} // closed by the next record; nil while nobody waits
}

// chunk is how many records are looked at while nobody can add one.
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
func (j *Journal) Recent(q Query) []Record {
	records, _ := j.recent(q)
	return records
}

// recent also tells the number of the record that comes next.
func (j *Journal) recent(q Query) (found []Record, next uint64) {
	if j == nil {
		return nil, 0
	}
	end, _ := j.end()
	for next < end {
		found, next, _ = j.read(found, &q, next, end)
	}
	if q.Limit > 0 && len(found) > q.Limit {
		found = slices.Clone(found[len(found)-q.Limit:])
	}
	return found, next
}

// Follow calls take with the records that are remembered and then with those that come, until ctx ends. Whoever wants
// the new ones alone asks for those since now. While take works nothing is kept for it but the ring: when that has
// turned over, a record of the kind Skipped says how many are missing.
func (j *Journal) Follow(ctx context.Context, q Query, take func(Record)) {
	if j == nil {
		<-ctx.Done()
		return
	}
	found, next := j.recent(q)
	for {
		for _, r := range found {
			if ctx.Err() != nil {
				return
			}
			take(r)
		}
		end, more := j.end()
		for next == end {
			select {
			case <-ctx.Done():
				return
			case <-more:
				end, more = j.end()
			}
		}
		var skipped uint64
		found, next, skipped = j.read(found[:0], &q, next, end)
		if skipped > 0 {
			found = slices.Insert(found, 0, Record{Time: time.Now(), Kind: Skipped, Count: int(skipped)})
		}
	}
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
