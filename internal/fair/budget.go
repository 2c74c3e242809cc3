package fair

import (
	"sync"
)

// largest is the part of a budget, one of so many, that bounds each wait: a request for more counts as that much.
const largest = 4

// Budget is a number of bytes for all of its shares.
type Budget struct {
	size, own int64

	mu     sync.Mutex
	taken  int64            // of size
	groups map[string]int64 // what each has of it; none has nothing
	used   int64            // by the shares, their own bytes among it

	overdrawn map[string]*Share // by group
}

// NewBudget makes a budget of size bytes, and own more for each share.
func NewBudget(size, own int64) *Budget {
	return &Budget{size: size, own: own, groups: map[string]int64{}, overdrawn: map[string]*Share{}}
}

// Used returns the number of bytes in use.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Share is for one holder out of a group.
func (b *Budget) Share(group string) *Share {
	return &Share{budget: b, group: group, freed: make(chan struct{}, 1)}
}

// Share is what one holder takes from.
type Share struct {
	budget  *Budget
	group   string
	used    int64
	waiting bool // a request was refused
	freed   chan struct{}
}

// Acquire takes as much as there is, at most so many bytes. It returns how many, and takes none if there are fewer than the
// least.
func (s *Share) Acquire(least, most int64) int64 {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	least = min(least, b.size/largest)
	bytes := min(most, s.available(least))
	if bytes < least {
		s.waiting = true
		return 0
	}
	s.add(bytes)
	return bytes
}

// Overdraw acquires bytes that may not be there, and reports whether it did. Of a group one share at a time may have
// overdrawn, until it has no more than its own bytes again.
func (s *Share) Overdraw(bytes int64) bool {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if holder := b.overdrawn[s.group]; holder != nil && holder != s {
		return false
	}
	s.add(bytes)
	if s.used > b.own {
		b.overdrawn[s.group] = s
	}
	return true
}

// Release returns bytes.
func (s *Share) Release(bytes int64) {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	s.add(-bytes)
	if s.waiting {
		s.waiting = false
		select {
		case s.freed <- struct{}{}:
		default:
		}
	}
}

// Freed is notified when the share itself has released bytes after it was refused some, and not when others have.
func (s *Share) Freed() <-chan struct{} { return s.freed }

// available returns the number of free bytes. The lock is held.
func (s *Share) available(least int64) int64 {
	b := s.budget
	own := max(b.own-s.used, 0)
	free, taken := b.size-b.taken, b.groups[s.group]
	if taken == 0 && own+free >= least {
		return max(own+free/2, least)
	}
	return own + max(free-taken, 0)/2
}

// add changes what the share has. The lock is held.
func (s *Share) add(bytes int64) {
	b := s.budget
	before := max(s.used-b.own, 0)
	s.used += bytes
	b.used += bytes
	if s.used <= b.own && b.overdrawn[s.group] == s {
		delete(b.overdrawn, s.group)
	}
	change := max(s.used-b.own, 0) - before
	if change == 0 {
		return
	}
	b.taken += change
	if left := b.groups[s.group] + change; left != 0 {
		b.groups[s.group] = left
	} else {
		delete(b.groups, s.group)
	}
}

// JSONLimits bound a text.
type JSONLimits struct {
	// Values limits how many values there may be, the keys of objects not among them.
	Values int
	// Depth is how many objects and arrays may be around one.
	Depth int
}

// JSONCounter counts one text.
type JSONCounter struct {
	Limits JSONLimits

	values, depth   int
	text, backslash bool
}

// Add counts the next part of the text. It is false once the text is over a limit.
func (c *JSONCounter) Add(part []byte) bool {
	for _, b := range part {
		switch {
		case c.backslash:
			c.backslash = false
		case c.text:
			c.text, c.backslash = b != '"', b == '\\'
		case b == '"':
			c.text = true
		case b == '{' || b == '[':
			c.values++
			c.depth++
		case b == '}' || b == ']':
			c.depth--
		case b == ',':
			c.values++
		}
		if c.values > c.Limits.Values || c.depth > c.Limits.Depth {
			return false
		}
	}
	return true
}
