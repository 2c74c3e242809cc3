package broker

import (
	"hash/maphash"
	"sync"
)

// consumerLocks keep those apart who work on the same consumer, and who works on one from who has to know all of them.
type consumerLocks struct {
	all  sync.RWMutex
	some [64]sync.Mutex
}

var consumerSeed = maphash.MakeSeed()

// one waits until nobody else works on the consumer, nor on all of them. The caller has to call the result.
func (l *consumerLocks) one(name string) (release func()) {
	l.all.RLock()
	lock := &l.some[maphash.String(consumerSeed, name)%uint64(len(l.some))]
	lock.Lock()
	return func() {
		lock.Unlock()
		l.all.RUnlock()
	}
}
