package httpload

import "k8s.io/apimachinery/pkg/types"

// watcher wants to know of the requests for one Function.
type watcher struct{ notify func() }

// OnRequest calls notify each time that a gateway has taken requests for the Function, until stop is called. It must not block.
func (g *Gateways) OnRequest(function types.NamespacedName, notify func()) (stop func()) {
	added := &watcher{notify: notify}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.watchers[function] == nil {
		g.watchers[function] = map[*watcher]struct{}{}
	}
	g.watchers[function][added] = struct{}{}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.watchers[function], added)
		if len(g.watchers[function]) == 0 {
			delete(g.watchers, function)
		}
	}
}

// watchersOf are those of the Functions. The lock must be held.
func (g *Gateways) watchersOf(functions []types.NamespacedName) []*watcher {
	var found []*watcher
	for _, function := range functions {
		for each := range g.watchers[function] {
			found = append(found, each)
		}
	}
	return found
}
