package chain

import (
	"encoding/binary"
	"sync"
	"time"
)

const (
	// rows and columns of a namespace's table, 32 KiB. A chain is as large as its smallest counter says.
	rows    = 4
	columns = 1024
	// window is how long a count is remembered at least, when the chain does not go on; twice as long at most. Where one goes on later,
	// the event that it goes on from says how far it had come.
	window = 5 * time.Minute
)

// budget counts the events of chains by namespace.
type budget struct {
	limit uint32

	mu         sync.Mutex
	namespaces map[id]*counts
	swept      time.Time
}

// counts are those of a namespace in this window, and in the one before.
type counts struct {
	began           time.Time
	current, before [rows][columns]uint32
}

// caused returns how many events of a chain its namespace has published, or more.
func (b *budget) caused(p *place) uint32 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.namespaces[p.namespace]; c != nil {
		c.turn(time.Now())
		return max(p.caused, c.caused(p.root))
	}
	return p.caused
}

// count adds events to a chain.
func (b *budget) count(p *place, events int) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sweep(now)
	c := b.namespaces[p.namespace]
	if c == nil {
		c = &counts{began: now}
		b.namespaces[p.namespace] = c
	}
	c.turn(now)
	c.raise(p.root, max(p.caused, c.caused(p.root))+uint32(events))
}

// sweep forgets namespaces that have caused nothing for two windows.
func (b *budget) sweep(now time.Time) {
	if now.Sub(b.swept) < window {
		return
	}
	b.swept = now
	for namespace, c := range b.namespaces {
		if now.Sub(c.began) >= 2*window {
			delete(b.namespaces, namespace)
		}
	}
}

// turn begins a window when the one at hand is over.
func (c *counts) turn(now time.Time) {
	switch age := now.Sub(c.began); {
	case age < window:
		return
	case age < 2*window:
		c.before = c.current
	default:
		c.before = [rows][columns]uint32{}
	}
	c.current, c.began = [rows][columns]uint32{}, now
}

func (c *counts) caused(root id) uint32 {
	least := uint32(1<<32 - 1)
	for row := range rows {
		column := columnOf(root, row)
		least = min(least, max(c.current[row][column], c.before[row][column]))
	}
	return least
}

// raise raises the counters of a chain to a count, and none that is higher already for the sake of another.
func (c *counts) raise(root id, count uint32) {
	for row := range rows {
		counter := &c.current[row][columnOf(root, row)]
		*counter = max(*counter, count)
	}
}

// columnOf takes a part of the root for each row.
func columnOf(root id, row int) int {
	return int(binary.BigEndian.Uint16(root[2*row:])) % columns
}
