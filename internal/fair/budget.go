package fair

import (
	"sync"
)

// largest is the divisor of a budget that bounds each wait: a request for more than this part counts as a request for
// the part.
const largest = 4

// Budget is a number of bytes that Shares divide.
type Budget struct {
	size, own int64

	mu     sync.Mutex
	taken  int64            // of size
	groups map[string]int64 // bytes taken by each group; absent without any
	used   int64            // by all shares, including their own bytes

	overdrawn map[string]*Share // by group
}

// NewBudget makes a budget of size bytes, plus own bytes for each share.
func NewBudget(size, own int64) *Budget {
	return &Budget{size: size, own: own, groups: map[string]int64{}, overdrawn: map[string]*Share{}}
}

// Used returns the number of bytes in use.
func (b *Budget) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// Share returns a share for one holder of a group.
func (b *Budget) Share(group string) *Share {
	return &Share{budget: b, group: group, freed: make(chan struct{}, 1)}
}

// Share is the part of a Budget that one holder uses.
type Share struct {
	budget  *Budget
	group   string
	used    int64
	waiting bool // a request was denied
	freed   chan struct{}
}

// Acquire takes as many bytes as are available, at most most, and returns their number. It takes none if fewer than
// least are available.
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

// Overdraw takes bytes beyond the available ones, and reports whether it did. Only one share of a group at a time may
// be overdrawn, until it uses no more than its own bytes again.
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

// Freed is notified when this share, not another, has released bytes after a request of it was denied.
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

// add changes the number of bytes in use by the share. The lock is held.
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

// JSONLimits bound a JSON text.
type JSONLimits struct {
	// Values is the maximum number of values, without the keys of objects.
	Values int
	// Depth is the maximum nesting of objects and arrays.
	Depth int
}

// JSONCounter counts the values of one text.
type JSONCounter struct {
	Limits JSONLimits

	values, depth   int
	text, backslash bool
}

// Add counts the next part of the text. It returns false once the text exceeds a limit.
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
