package dev

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// deadLetterPoll is how often the dead letters are counted. Others may redrive and purge them.
const deadLetterPoll = 500 * time.Millisecond

// deadLetterCount counts the dead letters of each Subscription.
type deadLetters struct {
	count func(ctx context.Context) (map[types.NamespacedName]uint64, error)

	mu      sync.Mutex
	counts  map[types.NamespacedName]uint64
	changed chan struct{} // closed and replaced when they change
}

func newDeadLetters(count func(ctx context.Context) (map[types.NamespacedName]uint64, error)) *deadLetters {
	return &deadLetters{count: count, changed: make(chan struct{})}
}

// run counts until ctx ends. While that fails, what was counted last stands.
func (l *deadLetters) run(ctx context.Context) error {
	ticker := time.NewTicker(deadLetterPoll)
	defer ticker.Stop()
	for {
		if counts, err := l.count(ctx); err == nil {
			l.set(counts)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (l *deadLetters) set(counts map[types.NamespacedName]uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if maps.Equal(l.counts, counts) {
		return
	}
	l.counts = counts
	close(l.changed)
	l.changed = make(chan struct{})
}

// now are the counts, which are not to be changed, and a channel that is closed when there are others.
func (l *deadLetters) now() (counts map[types.NamespacedName]uint64, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts, l.changed
}
