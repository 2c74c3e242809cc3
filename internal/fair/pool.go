package fair

import (
	"cmp"
	"container/heap"
	"errors"
	"iter"
	"slices"
	"sync"
)

var (
	// ErrFull means that a request cannot even wait: the queue is full, or its key has its share of the queue.
	ErrFull = errors.New("too many requests wait")
	// ErrStopped means that the caller stopped before the request was granted.
	ErrStopped = errors.New("stopped while waiting")
)

// mostKeys bounds the number of keys: above it, the charges of keys that hold nothing are forgotten.
const mostKeys = 4096

// Limits bound a Pool.
type Limits struct {
	// Total is the number of units of all keys together.
	Total int64
	// PerKey is the number of units that one key may hold. 0: no more than it leaves free.
	PerKey int64
	// Waiting is the number of requests that may wait; one key may use as many as it leaves free. 0: no request waits.
	Waiting int64
}

// Pool shares units (places, permits, bytes) by key. It is safe for concurrent use.
type Pool struct {
	limits Limits

	mu      sync.Mutex
	used    int64
	waiting int64
	keys    map[string]*member
	turns   turns
	joined  uint64
	floor   int64 // the charge of the key that was granted units last
}

// member is a Pool's state of one key.
type member struct {
	key      string
	held     int64
	charged  int64
	requests []*Request // in order of arrival
	turn     uint64     // when it joined the queue, or was last granted units
	index    int        // in the heap, while requests wait
}

// NewPool returns a Pool whose units are all free.
func NewPool(limits Limits) *Pool { return &Pool{limits: limits, keys: map[string]*member{}} }

// TryAcquire takes units for a key if they are available to it at once.
func (p *Pool) TryAcquire(key string, units int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.member(key)
	defer p.forget(m)
	if !p.mayTake(m, units) {
		return false
	}
	p.take(m, units)
	return true
}

// Acquire takes units for a key, and waits in turn until they are available to it or stop is closed.
func (p *Pool) Acquire(stop <-chan struct{}, key string, units int64) error {
	if p.TryAcquire(key, units) {
		return nil
	}
	granted := make(chan struct{})
	request, err := p.Request(key, units, func() { close(granted) })
	if err != nil {
		return err
	}
	select {
	case <-granted:
		return nil
	case <-stop:
		request.Close()
		return ErrStopped
	}
}

// Release returns units that a key holds.
func (p *Pool) Release(key string, units int64) {
	p.mu.Lock()
	m := p.keys[key]
	m.held -= units
	p.used -= units
	granted := p.grant()
	p.forget(m)
	p.mu.Unlock()
	notify(granted)
}

// Charge adds to the accumulated cost of a key, in any unit common to all keys. Of the waiting keys, the one with the
// smallest cost comes first. A key that did not wait for a while gains no advantage.
func (p *Pool) Charge(key string, cost int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.member(key)
	defer p.forget(m)
	m.charged = max(m.charged, p.floor) + cost
	if len(m.requests) > 0 {
		heap.Fix(&p.turns, m.index)
	}
}

// Request is a request for units that may have to wait.
type Request struct {
	pool    *Pool
	member  *member
	units   int64
	notify  func()
	granted bool
	closed  bool
}

// Request requests units without blocking. granted is called once, when the key has them, from any goroutine and
// possibly before Request returns. Close leaves the queue, or releases the units.
func (p *Pool) Request(key string, units int64, granted func()) (*Request, error) {
	p.mu.Lock()
	m := p.member(key)
	r := &Request{pool: p, member: m, units: units, notify: granted}
	if p.mayTake(m, units) {
		p.take(m, units)
		r.granted = true
		p.mu.Unlock()
		granted()
		return r, nil
	}
	defer p.mu.Unlock()
	defer p.forget(m)
	if units > p.limits.Total || !fits(p.limits.Waiting, p.waiting, int64(len(m.requests)), 1) {
		return nil, ErrFull
	}
	m.requests = append(m.requests, r)
	p.waiting++
	if len(m.requests) == 1 {
		m.charged = max(m.charged, p.floor)
		p.joined++
		m.turn = p.joined
		heap.Push(&p.turns, m)
	}
	return r, nil
}

// Close leaves the queue, or releases the granted units. Further calls have no effect.
func (r *Request) Close() {
	p := r.pool
	p.mu.Lock()
	if r.closed {
		p.mu.Unlock()
		return
	}
	r.closed = true
	if r.granted {
		r.member.held -= r.units
		p.used -= r.units
	} else {
		p.withdraw(r)
	}
	granted := p.grant()
	p.forget(r.member)
	p.mu.Unlock()
	notify(granted)
}

// Stats returns the number of held units and of waiting requests.
func (p *Pool) Stats() (used, waiting int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used, p.waiting
}

// Held returns the number of units that a key holds.
func (p *Pool) Held(key string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.keys[key]; m != nil {
		return m.held
	}
	return 0
}

// mayTake reports whether units may be taken past the queue, because no waiter could take them. The lock is held.
func (p *Pool) mayTake(m *member, units int64) bool {
	if len(m.requests) > 0 || !p.fits(m, units) {
		return false
	}
	// A waiting key without units has precedence for units that become free.
	return len(p.turns) == 0 || p.turns[0].held > 0
}

func (p *Pool) fits(m *member, units int64) bool {
	if p.limits.PerKey > 0 {
		return units <= p.limits.Total-p.used && m.held+units <= p.limits.PerKey
	}
	return fits(p.limits.Total, p.used, m.held, units)
}

// fits reports whether a key may take more units of a total. It may if it then holds no more than is left free, or if
// it holds none and there are enough.
func fits(total, used, held, more int64) bool {
	left := total - used - more
	return left >= 0 && (held == 0 || held+more <= left)
}

func (p *Pool) take(m *member, units int64) {
	p.floor = max(p.floor, m.charged)
	m.held += units
	p.used += units
}

// grant grants free units to waiting requests, in turn, and returns the requests to notify. The lock is held.
func (p *Pool) grant() (granted []*Request) {
	var over []*member // keys that have their share
	for len(p.turns) > 0 {
		m := p.turns[0]
		r := m.requests[0]
		if !p.fits(m, r.units) {
			if m.held == 0 {
				break // units that become free are reserved for it
			}
			over = append(over, heap.Pop(&p.turns).(*member))
			continue
		}
		p.take(m, r.units)
		r.granted = true
		granted = append(granted, r)
		m.requests[0] = nil
		m.requests = m.requests[1:]
		p.waiting--
		p.joined++
		m.turn = p.joined
		if len(m.requests) == 0 {
			heap.Pop(&p.turns)
		} else {
			heap.Fix(&p.turns, 0)
		}
	}
	for _, m := range over {
		heap.Push(&p.turns, m)
	}
	return granted
}

func notify(granted []*Request) {
	for _, r := range granted {
		r.notify()
	}
}

func (p *Pool) withdraw(r *Request) {
	m := r.member
	for i, other := range m.requests {
		if other == r {
			m.requests = append(m.requests[:i], m.requests[i+1:]...)
			break
		}
	}
	p.waiting--
	if len(m.requests) == 0 {
		heap.Remove(&p.turns, m.index)
	}
}

func (p *Pool) member(key string) *member {
	m := p.keys[key]
	if m == nil {
		m = &member{key: key}
		p.keys[key] = m
	}
	return m
}

// forget drops a key without units and waiting requests, unless its charge exceeds the others'.
func (p *Pool) forget(m *member) {
	switch {
	case p.used == 0 && p.waiting == 0:
		clear(p.keys)
	case m.held > 0 || len(m.requests) > 0:
	case m.charged <= p.floor || len(p.keys) > mostKeys:
		delete(p.keys, m.key)
	}
}

// turns is a heap of the waiting keys: the one with the smallest charge comes first, and among equals the one that has
// waited longest.
type turns []*member

func (t turns) Len() int { return len(t) }

func (t turns) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(t[i].charged, t[j].charged), cmp.Compare(t[i].turn, t[j].turn)) < 0
}

func (t turns) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].index, t[j].index = i, j
}

func (t *turns) Push(m any) {
	added := m.(*member)
	added.index = len(*t)
	*t = append(*t, added)
}

func (t *turns) Pop() any {
	last := len(*t) - 1
	m := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	return m
}

// Queue holds items by key: keys take turns, and each key's items are in order. The zero Queue is empty. It is not safe
// for concurrent use.
type Queue[T any] struct {
	items map[string][]T
	turns []string // the keys that have items
	len   int
}

// Len returns the number of items.
func (q *Queue[T]) Len() int { return q.len }

// Push appends an item to those of a key.
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

// Pop removes the first item of the key whose turn it is. It returns false when the queue is empty.
func (q *Queue[T]) Pop() (item T, ok bool) {
	return q.PopFrom(func(string) bool { return true })
}

// PopFrom removes the first item of the first key in turn for which may returns true.
func (q *Queue[T]) PopFrom(may func(key string) bool) (item T, ok bool) {
	i := slices.IndexFunc(q.turns, may)
	if i < 0 {
		return item, false
	}
	key := q.turns[i]
	q.turns = slices.Delete(q.turns, i, i+1)
	items := q.items[key]
	item, items[0] = items[0], item // nothing is moved, however many wait
	q.keep(key, items[1:])
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
