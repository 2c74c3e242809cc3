package httpload

import "sync"

// limits hand out slots to namespaces: as many to each. Its zero value is ready to use.
type limits struct {
	mu    sync.Mutex
	inUse map[string]*limit
}

type limit struct {
	users int
	slots chan struct{}
}

// acquire returns the namespace's slots, which are kept until the last of its users has called release.
func (l *limits) acquire(namespace string) (slots chan struct{}, release func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.inUse[namespace]
	if held == nil {
		held = &limit{slots: make(chan struct{}, perNamespace)}
		if l.inUse == nil {
			l.inUse = map[string]*limit{}
		}
		l.inUse[namespace] = held
	}
	held.users++
	return held.slots, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if held.users--; held.users == 0 {
			delete(l.inUse, namespace)
		}
	}
}
