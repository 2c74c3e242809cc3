package timers

import (
	"encoding/json"
	"hash/fnv"
	"slices"
	"sync"
	"time"
)

const (
	beatInterval = 250 * time.Millisecond
	// silence is how long nothing is heard of a bridge that is assumed to live.
	silence = 750 * time.Millisecond
	// stagger is between the moments at which the first bridge acts, the second one, and so on, while all live. It is longer than a busy
	// server takes: a stream whose leader has restarted does not know the ids of events that are settled, and would store them twice.
	stagger = 2 * time.Second
	// lastRank bounds how late the last of many bridges acts.
	lastRank = 3
	// maxPeers bounds the bridges that are remembered.
	maxPeers = 64
	// maxDone bounds what one beat says.
	maxDone = 512
)

// beat is what bridges tell each other.
type beat struct {
	Leaving bool     `json:"leaving,omitempty"`
	Done    []string `json:"done,omitempty"` // delayed events that are published
}

// peers are the bridges that live, this one included.
type peers struct {
	own string

	mu    sync.Mutex
	heard map[string]time.Time // when, of the others
}

func newPeers(own string) *peers { return &peers{own: own, heard: map[string]time.Time{}} }

// hear records a beat, and reports whether the ranks have changed.
func (p *peers) hear(id string, data []byte, now time.Time) (heard beat, changed bool) {
	if json.Unmarshal(data, &heard) != nil || id == p.own {
		return beat{}, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, known := p.heard[id]
	switch {
	case heard.Leaving:
		delete(p.heard, id)
		return heard, known
	case !known && len(p.heard) == maxPeers:
		return heard, false
	}
	p.heard[id] = now
	return heard, !known
}

// expire forgets bridges that are silent, and reports whether there were any.
func (p *peers) expire(now time.Time) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, at := range p.heard {
		if now.Sub(at) > silence {
			delete(p.heard, id)
			changed = true
		}
	}
	return changed
}

// patience is how long after a time this bridge acts on a key: not at all for the first.
func (p *peers) patience(key string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	own, rank := weight(p.own, key), 0
	for id := range p.heard {
		if other := weight(id, key); other > own || other == own && id > p.own {
			rank++
		}
	}
	return time.Duration(min(rank, lastRank)) * stagger
}

// weight orders bridges differently for each key.
func weight(id, key string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(key))
	_, _ = hash.Write([]byte(id))
	// The last bytes alone change few bits of a Fowler hash.
	sum := hash.Sum64()
	sum ^= sum >> 33
	sum *= 0xff51afd7ed558ccd
	return sum ^ sum>>33
}

// doneList collects what the next beats say.
type doneList struct {
	mu  sync.Mutex
	ids []string
}

func (d *doneList) add(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ids = append(d.ids, id)
}

// take returns what one beat says, and whether more is left.
func (d *doneList) take() (ids []string, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	count := min(len(d.ids), maxDone)
	ids = slices.Clone(d.ids[:count])
	d.ids = slices.Delete(d.ids, 0, count)
	return ids, len(d.ids) > 0
}
