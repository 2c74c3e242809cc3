package scaler

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/routing"
)

// fakeGateways hold what a test says.
type fakeGateways struct {
	mu       sync.Mutex
	loads    map[types.NamespacedName]activation.FunctionLoad
	err      error
	watchers map[*watcher]bool
}

type watcher struct {
	function types.NamespacedName
	notify   func()
}

func newFakeGateways() *fakeGateways {
	return &fakeGateways{loads: map[types.NamespacedName]activation.FunctionLoad{}, watchers: map[*watcher]bool{}}
}

func (g *fakeGateways) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (g *fakeGateways) Load(function types.NamespacedName) (activation.FunctionLoad, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.loads[function], g.err
}

func (g *fakeGateways) OnRequest(function types.NamespacedName, notify func()) func() {
	g.mu.Lock()
	defer g.mu.Unlock()
	added := &watcher{function: function, notify: notify}
	g.watchers[added] = true
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.watchers, added)
	}
}

func (g *fakeGateways) Connected() int { return 1 }

// take is a request that waits, or that is refused.
func (g *fakeGateways) take(function types.NamespacedName, waits bool) {
	g.mu.Lock()
	load := g.loads[function]
	load.Requests++
	if waits {
		load.Waiting++
	}
	g.loads[function] = load
	watchers := maps.Clone(g.watchers)
	g.mu.Unlock()
	for each := range watchers {
		if each.function == function {
			each.notify()
		}
	}
}

// finish ends all requests.
func (g *fakeGateways) finish(function types.NamespacedName) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loads[function] = activation.FunctionLoad{Requests: g.loads[function].Requests}
}

func (g *fakeGateways) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

// fakePods report what a test says, each pod the same.
type fakePods struct {
	mu    sync.Mutex
	load  activation.PodLoad
	err   error
	hangs bool
	reads int
}

func (p *fakePods) Loads(ctx context.Context, _ string, endpoints []routing.Endpoint) (map[string]activation.PodLoad, error) {
	p.mu.Lock()
	p.reads++
	load, err, hangs := p.load, p.err, p.hangs
	p.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	loads := map[string]activation.PodLoad{}
	for _, endpoint := range endpoints {
		loads[endpoint.Address] = load
	}
	return loads, nil
}

// change runs under the pods' lock.
func (p *fakePods) change(change func(*fakePods)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// run is what all pods run from now on, and how many calls they began with it.
func (p *fakePods) run(running uint64) {
	p.change(func(p *fakePods) { p.load.Requests, p.load.Running = p.load.Requests+running, running })
}

func (p *fakePods) count() (reads int) {
	p.change(func(p *fakePods) { reads = p.reads })
	return reads
}

// fakeListings have one answer for all Functions.
type fakeListings struct{ board[bool] }

func (l *fakeListings) WatchFunction(ctx context.Context, _ types.NamespacedName, apply func(bool)) error {
	return l.watch(ctx, apply)
}

// fakeIdleness keeps when a Function was announced.
type fakeIdleness struct {
	mu        sync.Mutex
	announced map[types.NamespacedName][]time.Time
}

func (i *fakeIdleness) AnnounceIdle(function types.NamespacedName) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.announced == nil {
		i.announced = map[types.NamespacedName][]time.Time{}
	}
	i.announced[function] = append(i.announced[function], time.Now())
	return nil
}

func (i *fakeIdleness) of(function types.NamespacedName) []time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.announced[function]
}
