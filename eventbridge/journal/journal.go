package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"
)

// Kind is the kind of a record.
type Kind string

// The kinds of records.
const (
	Stored       Kind = "stored"       // the stream has the event; once more for each publish within the deduplication window
	Delivered    Kind = "delivered"    // the sink accepted it
	Retry        Kind = "retry"        // the attempt failed, the next one is at Due
	DeadLettered Kind = "deadlettered" // it became a dead letter
	Filtered     Kind = "filtered"     // the Subscription's filter does not match
	Redriven     Kind = "redriven"     // a dead letter was returned to its Subscription
	Skipped      Kind = "skipped"      // a follower was too slow: Count records are missing here
)

// Kinds returns all kinds that a record may have.
func Kinds() []Kind {
	return []Kind{Stored, Delivered, Retry, DeadLettered, Filtered, Redriven, Skipped}
}

// Record is one step in the life of an event.
type Record struct {
	Time time.Time `json:"time"` // when it happened
	Kind Kind      `json:"kind"`

	ID     string `json:"id,omitempty"` // of the event; empty if the message is not an event
	Source string `json:"source,omitempty"`
	Type   string `json:"type,omitempty"`
	Cause  string `json:"cause,omitempty"` // id of the event whose handling published this one
	Trace  string `json:"trace,omitempty"` // W3C trace id

	// Only of deliveries.
	Namespace    string     `json:"namespace,omitempty"`
	Subscription string     `json:"subscription,omitempty"`
	Sink         string     `json:"sink,omitempty"`       // namespace/name of the Service, or the host
	DeadLetter   bool       `json:"deadLetter,omitempty"` // a dead letter was delivered to its dead-letter sink
	Stored       time.Time  `json:"stored,omitzero"`      // when the stream first stored the event
	Attempt      int        `json:"attempt,omitempty"`
	Status       int        `json:"status,omitempty"`  // of the sink's answer; 0 without an answer
	Reason       string     `json:"reason,omitempty"`  // of a retry or a dead letter: a code of package failure
	Message      string     `json:"message,omitempty"` // the reason as a sentence
	Due          *time.Time `json:"due,omitempty"`     // of a retry

	Began time.Time     `json:"began,omitzero"` // start of the publish or the attempt
	Took  time.Duration `json:"-"`              // duration of the publish or the attempt; seconds in JSON

	Count int `json:"count,omitempty"` // number of missing records
}

// plain is a Record without methods.
type plain Record

type written struct {
	plain

	Took float64 `json:"took,omitempty"`
}

// MarshalJSON implements json.Marshaler.
func (r Record) MarshalJSON() ([]byte, error) {
	body, err := json.Marshal(written{plain(r), r.Took.Seconds()})
	if err != nil {
		return nil, fmt.Errorf("write record: %w", err)
	}
	return body, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Record) UnmarshalJSON(body []byte) error {
	var read written
	if err := json.Unmarshal(body, &read); err != nil {
		return fmt.Errorf("read record: %w", err)
	}
	*r = Record(read.plain)
	r.Took = time.Duration(read.Took * float64(time.Second))
	return nil
}

// Journal is a ring of records for each namespace. It is safe for concurrent use.
type Journal struct {
	capacity int

	mu      sync.Mutex
	rings   map[string]*ring // by namespace; none is empty
	recent  *ring            // the ring that was added to last, first of a list in that order
	largest *ring            // or nearly the largest
	kept    int              // records of all rings
	added   uint64           // records ever added; the next one's number
	wake    chan struct{}    // closed by the next record; nil while no follower waits
}

// New returns a Journal for that many records, nil for 0.
func New(capacity int) *Journal {
	if capacity <= 0 {
		return nil
	}
	return &Journal{capacity: capacity, rings: map[string]*ring{}}
}

// Add adds a record, with the current time if it has none. A full Journal drops the oldest record of the namespace that
// has most.
func (j *Journal) Add(r Record) {
	if j == nil {
		return
	}
	if r.Time.IsZero() {
		r.Time = time.Now()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	to := j.rings[r.Namespace]
	if to == nil {
		to = newRing()
		j.rings[r.Namespace] = to
	}
	to.add(&r, j.added)
	j.toFront(to)
	j.added++
	j.kept++
	if j.largest == nil || to.len() > j.largest.len() {
		j.largest = to
	}
	if j.kept > j.capacity {
		j.drop()
	}
	if j.wake != nil {
		close(j.wake)
		j.wake = nil
	}
}

// drop removes the oldest record of the largest ring.
func (j *Journal) drop() {
	from := j.largest
	j.kept--
	if blockIsEmpty := from.drop(); !blockIsEmpty {
		return
	}
	if from.len() == 0 {
		j.remove(from)
	}
	for _, other := range j.rings { // once for a block, or for a ring with few records
		most := j.largest.len()
		if other.len() > most || other.len() == most && other.last < j.largest.last {
			j.largest = other
		}
	}
}

func (j *Journal) remove(empty *ring) {
	for namespace, ring := range j.rings {
		if ring == empty {
			delete(j.rings, namespace)
		}
	}
	j.unlink(empty)
}

// toFront moves a ring to the front of the list.
func (j *Journal) toFront(r *ring) {
	if j.recent == r {
		return
	}
	j.unlink(r)
	r.older = j.recent
	if r.older != nil {
		r.older.newer = r
	}
	j.recent = r
}

func (j *Journal) unlink(r *ring) {
	if r.newer != nil {
		r.newer.older = r.older
	}
	if r.older != nil {
		r.older.newer = r.newer
	}
	if j.recent == r {
		j.recent = r.older
	}
	r.newer, r.older = nil, nil
}

// Recent returns the stored records, the oldest first.
func (j *Journal) Recent(q Query) (found []Record) {
	j.Each(q, func(r Record) bool {
		if r.Kind != Skipped {
			found = append(found, r)
		}
		return true
	})
	return found
}

// Each calls yield with the stored records, the oldest first, until it returns false. It holds a few records of each
// namespace at a time: when a ring is overwritten while yield runs, a record of the kind Skipped has the number of
// missing ones.
func (j *Journal) Each(q Query, yield func(Record) bool) {
	if j != nil {
		reading := j.remembered(&q)
		j.visit(&q, &reading, yield)
	}
}

// Follow is Each and continues with new records until ctx ends. With the current time as Query.Since it yields only the
// new ones.
func (j *Journal) Follow(ctx context.Context, q Query, yield func(Record)) {
	if j == nil {
		<-ctx.Done()
		return
	}
	reading := j.remembered(&q)
	for j.visit(&q, &reading, func(r Record) bool {
		if ctx.Err() != nil {
			return false
		}
		yield(r)
		return true
	}) {
		for added, more := j.end(); added == reading.end; added, more = j.end() {
			select {
			case <-ctx.Done():
				return
			case <-more:
			}
		}
		j.goOn(&q, &reading)
	}
}

// end returns the number of the next record and a channel that is closed when it is added.
func (j *Journal) end() (uint64, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.wake == nil {
		j.wake = make(chan struct{})
	}
	return j.added, j.wake
}
