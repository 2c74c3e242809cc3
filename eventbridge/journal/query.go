package journal

import (
	"container/heap"
	"math"
	"slices"
	"time"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

// Query selects records. Empty fields match all.
type Query struct {
	ID           string
	Trace        string
	Cause        string
	Source       string
	Type         string // or a prefix and *: order.*
	Namespace    string
	Subscription string
	Kinds        []Kind
	Since        time.Time // inclusive
	Limit        int       // the last ones of the stored records; 0: all
}

// Matches reports whether a record is selected. Skipped always is, because selected records may be missing.
func (q Query) Matches(r Record) bool {
	return r.Kind == Skipped || q.matches(&r)
}

func (q *Query) matches(r *Record) bool {
	return is(q.ID, r.ID) && is(q.Trace, r.Trace) && is(q.Cause, r.Cause) && is(q.Source, r.Source) &&
		q.matchesType(r.Type) &&
		(q.Namespace == "" || q.Namespace == r.Namespace) && (q.Subscription == "" || q.Subscription == r.Subscription) &&
		(len(q.Kinds) == 0 || slices.Contains(q.Kinds, r.Kind)) &&
		!r.Time.Before(q.Since)
}

func (q *Query) matchesType(name string) bool {
	return is(q.Type, name) || cloudevent.MatchesType(q.Type, name)
}

// is compares a value with the stored, possibly truncated text.
func is(wanted, text string) bool { return wanted == "" || cut(wanted) == text }

// reading is the position of a reader.
type reading struct {
	from, end uint64 // numbers of records
	skip      int    // matching records to skip from there on
	next      map[*ring]uint64
	cursors   cursors // of the rings with unread records
}

// remembered starts to read the records of a query.
func (j *Journal) remembered(q *Query) reading {
	if q.Limit <= 0 {
		return j.begin(q, 0)
	}
	for apart := uint64(lookBack * q.Limit); ; apart *= lookBack {
		end, kept := j.size()
		from := end - min(end, apart)
		last, count := j.lastFrom(q, from)
		if count >= q.Limit || apart >= kept {
			return last
		}
	}
}

// lookBack is how many times as many of the latest records are looked at as are wanted, and then as many times as many again.
const lookBack = 4

// size returns the number of the next record, and the distance from there that has all stored ones.
func (j *Journal) size() (end, all uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	oldest := j.added
	for _, ring := range j.rings {
		oldest = min(oldest, ring.blocks[0].number)
	}
	return j.added, j.added - oldest
}

// lastFrom starts to read the last records of a query, of those with a number and after it. They are found by counting all, with a mark at
// intervals.
func (j *Journal) lastFrom(q *Query, from uint64) (last reading, count int) {
	const apart = blockRecords
	var marks []uint64
	counted := j.begin(q, from)
	j.merge(&counted, func(number uint64, r Record) bool {
		if r.Kind != Skipped && number >= from && q.matches(&r) {
			if count%apart == 0 {
				marks = append(marks, number)
			}
			count++
		}
		return true
	})
	if count <= q.Limit {
		return j.begin(q, from), count
	}
	first := count - q.Limit
	last = j.begin(q, marks[first/apart])
	last.skip, last.end = first%apart, counted.end
	return last, count
}

// begin reads the stored records with a number and after it, except for those that are too old as a whole block.
func (j *Journal) begin(q *Query, from uint64) reading {
	since := int64(math.MinInt64)
	if !q.Since.IsZero() {
		since = q.Since.UnixNano()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	r := reading{from: from, end: j.added, next: map[*ring]uint64{}}
	for namespace, ring := range j.rings {
		if q.Namespace == "" || q.Namespace == namespace {
			r.take(ring, ring.from(from, since))
		}
	}
	return r
}

// goOn reads what was added since the reading's end.
func (j *Journal) goOn(q *Query, r *reading) {
	j.mu.Lock()
	defer j.mu.Unlock()
	before := r.end
	r.end, r.from, r.skip, r.cursors = j.added, 0, 0, nil
	r.forget(len(j.rings))
	if q.Namespace != "" {
		if ring := j.rings[q.Namespace]; ring != nil {
			r.take(ring, r.next[ring])
		}
		return
	}
	for ring := j.recent; ring != nil && ring.last >= before; ring = ring.older {
		r.take(ring, r.next[ring])
	}
}

// forget drops the rings that the journal no longer has, once they are as many as the others: a follower comes here for
// each record. The caller holds the lock.
func (r *reading) forget(rings int) {
	if len(r.next) <= 2*rings {
		return
	}
	for ring := range r.next {
		if ring.len() == 0 {
			delete(r.next, ring)
		}
	}
}

// take reads the records of a ring from the given one on. The caller holds the lock.
func (r *reading) take(from *ring, next uint64) {
	r.next[from] = from.next
	r.cursors = append(r.cursors, &cursor{ring: from, next: next, end: from.next})
}

// visit calls yield with the matching records of a reading, and returns false when yield did.
func (j *Journal) visit(q *Query, r *reading, yield func(Record) bool) bool {
	return j.merge(r, func(number uint64, record Record) bool {
		switch {
		case record.Kind == Skipped:
			return yield(record)
		case number < r.from || !q.matches(&record):
			return true
		case r.skip > 0:
			r.skip--
			return true
		}
		return yield(record)
	})
}

// merge calls yield with the records of all cursors in order, until it returns false.
func (j *Journal) merge(r *reading, yield func(number uint64, r Record) bool) bool {
	all := r.cursors
	r.cursors = nil
	ready := make(cursors, 0, len(all))
	for _, c := range all {
		if more, ok := j.step(c, yield); !ok {
			return false
		} else if more {
			ready = append(ready, c)
		}
	}
	heap.Init(&ready)
	for len(ready) > 0 {
		c := ready[0]
		if !yield(c.number, c.record) {
			return false
		}
		more, ok := j.step(c, yield)
		switch {
		case !ok:
			return false
		case more:
			heap.Fix(&ready, 0)
		default:
			heap.Pop(&ready)
		}
	}
	return true
}

// step moves a cursor to its next record and yields the number of lost ones before it.
func (j *Journal) step(c *cursor, yield func(number uint64, r Record) bool) (more, ok bool) {
	if c.left == 0 && c.next < c.end {
		if lost := j.refill(c); lost > 0 && !yield(c.number, Record{Time: time.Now(), Kind: Skipped, Count: int(lost)}) {
			return false, false
		}
	}
	return c.read(), true
}

// refill gives a cursor a copy of the block of its next record, and returns how many records are lost.
func (j *Journal) refill(c *cursor) (lost uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if first := c.ring.first; c.next < first {
		lost = min(first, c.end) - c.next
		c.next += lost
	}
	if c.next < c.end {
		c.open(c.ring.blockOf(c.next))
	}
	return lost
}

// cursor reads the records of one ring.
type cursor struct {
	ring      *ring
	next, end uint64 // ordinals of the ring

	block block
	rest  reader
	left  int // records of the block

	number uint64 // of the record
	record Record
}

func (c *cursor) open(b block) {
	c.block, c.rest = b, reader{data: b.data, number: b.number}
	c.left = b.count
	for at := b.first; at < c.next; at++ {
		c.rest.record(&c.block)
		c.left--
	}
}

func (c *cursor) read() bool {
	if c.next >= c.end || c.left == 0 {
		return false
	}
	record, texts := c.rest.record(&c.block)
	c.number, c.record = c.rest.number, texts.of(record)
	c.next++
	c.left--
	return true
}

// cursors is a heap by record number.
type cursors []*cursor

func (c cursors) Len() int           { return len(c) }
func (c cursors) Less(i, k int) bool { return c[i].number < c[k].number }
func (c cursors) Swap(i, k int)      { c[i], c[k] = c[k], c[i] }

func (c *cursors) Push(x any) { *c = append(*c, x.(*cursor)) }

func (c *cursors) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}
