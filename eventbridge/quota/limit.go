package quota

import (
	"context"
	"sync"
)

// Limit is how many events may wait for one Subscription.
type Limit struct {
	mu      sync.Mutex
	limited bool
	allowed uint64
	changed chan struct{} // closed and replaced when limited changes
}

func newLimit() *Limit { return &Limit{changed: make(chan struct{})} }

// Wait blocks until there is a limit. The channel that it returns is closed when there is none any more. The only error is
// that of ctx.
func (l *Limit) Wait(ctx context.Context) (<-chan struct{}, error) {
	for {
		l.mu.Lock()
		limited, changed := l.limited, l.changed
		l.mu.Unlock()
		if limited {
			return changed, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		}
	}
}

// Over reports whether an event with so many others behind it is over the limit.
func (l *Limit) Over(behind uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limited && behind >= l.allowed
}

func (l *Limit) set(allowed uint64, limited bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.allowed = allowed
	if l.limited != limited {
		l.limited = limited
		close(l.changed)
		l.changed = make(chan struct{})
	}
}
