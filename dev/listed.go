package dev

import (
	"context"
	"sync"
)

// listed are the objects of one kind in the folder, as a cluster would list them.
type listed[T any] struct {
	mu      sync.Mutex
	known   bool
	all     []T
	changed chan struct{} // closed and replaced when they change
}

func newListed[T any]() *listed[T] { return &listed[T]{changed: make(chan struct{})} }

// set replaces the objects.
func (l *listed[T]) set(all []T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all, l.known = all, true
	close(l.changed)
	l.changed = make(chan struct{})
}

// Watch calls apply with all objects, once they are known and after each change, until ctx ends.
func (l *listed[T]) Watch(ctx context.Context, apply func([]T)) error {
	for {
		l.mu.Lock()
		all, known, changed := l.all, l.known, l.changed
		l.mu.Unlock()
		if known {
			apply(all)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}
