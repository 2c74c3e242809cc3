package broker

import (
	"hash/maphash"
	"sync"
)

// consumerLocks serialize changes of the same consumer, and keep any change from running while all consumers are listed or their
// stream is changed.
type consumerLocks struct {
	all  sync.RWMutex
	some [64]sync.Mutex
}

var consumerSeed = maphash.MakeSeed()

// one locks one consumer, and waits while all are locked. The caller has to call the result.
func (l *consumerLocks) one(name string) (release func()) {
	l.all.RLock()
	lock := &l.some[maphash.String(consumerSeed, name)%uint64(len(l.some))]
	lock.Lock()
	return func() {
		lock.Unlock()
		l.all.RUnlock()
	}
}

// none waits for changes that run and lets none begin. The caller has to call the result.
func (l *consumerLocks) none() (release func()) {
	l.all.Lock()
	return l.all.Unlock
}
