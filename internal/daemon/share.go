package daemon

import (
	"sync"
	"time"
)

const (
	// wholeShare is how many namespaces may log as much as one may.
	wholeShare = 4
	// maxBuckets is how many namespaces are remembered before those that are quiet are forgotten.
	maxBuckets = 256
)

// share divides the lines of objects that are debugged: each namespace has so many a second, and all have four times as many.
type share struct {
	mu         sync.Mutex
	namespaces map[string]*bucket
	all        bucket
}

// bucket holds the lines of one second at most.
type bucket struct {
	lines   float64
	filled  time.Time
	dropped int
}

// take takes a line, and returns how many the namespace was refused since its last one.
func (s *share) take(namespace string, perSecond int, now time.Time) (dropped int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.namespaces == nil {
		s.namespaces = map[string]*bucket{}
	}
	own := s.namespaces[namespace]
	if own == nil {
		s.forget(perSecond, now)
		own = &bucket{}
		s.namespaces[namespace] = own
	}
	own.fill(perSecond, now)
	s.all.fill(wholeShare*perSecond, now)
	if own.lines < 1 || s.all.lines < 1 {
		own.dropped++
		return 0, false
	}
	own.lines--
	s.all.lines--
	dropped, own.dropped = own.dropped, 0
	return dropped, true
}

// forget drops namespaces that have been quiet, before there are too many.
func (s *share) forget(perSecond int, now time.Time) {
	if len(s.namespaces) < maxBuckets {
		return
	}
	for name, b := range s.namespaces {
		if b.fill(perSecond, now); b.lines >= float64(perSecond) && b.dropped == 0 || len(s.namespaces) >= 2*maxBuckets {
			delete(s.namespaces, name)
		}
	}
}

func (b *bucket) fill(perSecond int, now time.Time) {
	most := float64(perSecond)
	if b.filled.IsZero() {
		b.lines = most
	} else if passed := now.Sub(b.filled); passed > 0 {
		b.lines += most * passed.Seconds()
	}
	b.lines, b.filled = min(b.lines, most), now
}
