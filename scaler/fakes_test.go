package scaler

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/activation"
	"github.com/rouse-run/rouse/internal/broker"
	"github.com/rouse-run/rouse/internal/routing"
)

var errDown = errors.New("no answer from NATS")

// fakeBroker is a broker in memory: a publish adds to the backlog of every
// consumer that has its subject, and reaches listeners.
type fakeBroker struct {
	mu        sync.Mutex
	backlogs  map[string]broker.Backlog // by consumer; one that is absent does not exist
	subjects  map[string][]string       // by consumer
	storeLag  time.Duration             // between a publish and its being counted
	err       error                     // what readings fail with
	hang      map[string]bool           // consumers whose reading never ends by itself
	down      bool
	listeners map[*fakeListener]bool
	onConnect []func()
	reads     int
	calls     map[types.NamespacedName]uint64 // that are detached
	callReads int
	callErr   error
}

type fakeListener struct {
	subjects []string
	notify   func()
}

func newFakeBroker() *fakeBroker {
	return &fakeBroker{
		backlogs:  map[string]broker.Backlog{},
		subjects:  map[string][]string{},
		hang:      map[string]bool{},
		listeners: map[*fakeListener]bool{},
	}
}

// create makes the durable consumers of the routes.
func (b *fakeBroker) create(routes ...routing.Route) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, route := range routes {
		b.backlogs[keyOf(route)] = broker.Backlog{}
		b.subjects[keyOf(route)] = route.Subjects
	}
}

func (b *fakeBroker) remove(route routing.Route) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.backlogs, keyOf(route))
}

func (b *fakeBroker) set(route routing.Route, backlog broker.Backlog) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.backlogs[keyOf(route)] = backlog
}

// change runs under the broker's lock.
func (b *fakeBroker) change(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// breakDown makes everything fail; comeBack undoes that.
func (b *fakeBroker) breakDown() {
	b.change(func() { b.err, b.down = errDown, true })
}

func (b *fakeBroker) comeBack() {
	b.mu.Lock()
	b.err, b.down = nil, false
	notify := slices.Clone(b.onConnect)
	b.mu.Unlock()
	for _, f := range notify {
		f()
	}
}

func (b *fakeBroker) publish(subject string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	store := func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for consumer, subjects := range b.subjects {
			if backlog, ok := b.backlogs[consumer]; ok && slices.Contains(subjects, subject) {
				backlog.Pending++
				b.backlogs[consumer] = backlog
			}
		}
	}
	if b.storeLag > 0 {
		time.AfterFunc(b.storeLag, store)
	} else {
		b.mu.Unlock()
		store()
		b.mu.Lock()
	}
	for l := range b.listeners {
		if slices.Contains(l.subjects, subject) {
			delete(b.listeners, l)
			go l.notify()
		}
	}
}

// keyOf distinguishes a consumer of dead letters from one of events, which has the same name.
func keyOf(route routing.Route) string {
	if route.OfDeadLetters {
		return broker.DeadLetterStream + "/" + route.Consumer
	}
	return route.Consumer
}

func (b *fakeBroker) Backlog(ctx context.Context, stream, consumer string) (broker.Backlog, error) {
	if stream == broker.DeadLetterStream {
		consumer = stream + "/" + consumer
	}
	b.mu.Lock()
	b.reads++
	hang, err := b.hang[consumer], b.err
	backlog, ok := b.backlogs[consumer]
	b.mu.Unlock()
	switch {
	case hang:
		<-ctx.Done()
		return broker.Backlog{}, ctx.Err()
	case err != nil:
		return broker.Backlog{}, err
	case !ok:
		return broker.Backlog{}, broker.ErrConsumerNotFound
	}
	return backlog, nil
}

func (b *fakeBroker) DetachedCallsOf(_ context.Context, subscription types.NamespacedName) (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.callReads++
	return b.calls[subscription], errors.Join(b.err, b.callErr)
}

func (b *fakeBroker) OnPublish(subjects []string, notify func()) (func(), error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &fakeListener{subjects: subjects, notify: notify}
	b.listeners[l] = true
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.listeners, l)
	}, nil
}

func (b *fakeBroker) WatchAhead(ctx context.Context, _ func(string)) error {
	<-ctx.Done()
	return nil
}

func (b *fakeBroker) Connected() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.down
}

func (b *fakeBroker) OnConnect(notify func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.onConnect = append(b.onConnect, notify)
}

func (b *fakeBroker) listening() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.listeners)
}

// board shows one value to any number of watchers.
type board[T any] struct {
	mu      sync.Mutex
	value   T
	posted  bool
	changed chan struct{}
}

func (b *board[T]) post(value T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.value, b.posted = value, true
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
}

func (b *board[T]) watch(ctx context.Context, apply func(T)) error {
	for {
		b.mu.Lock()
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		value, posted, changed := b.value, b.posted, b.changed
		b.mu.Unlock()
		if posted {
			apply(value)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

type fakeRoutes struct{ board[[]routing.Route] }

func (r *fakeRoutes) Watch(ctx context.Context, apply func([]routing.Route)) error {
	return r.watch(ctx, apply)
}

// fakeEndpoints has one ready endpoint for each Service that is awake.
type fakeEndpoints struct {
	board[map[types.NamespacedName]bool]
}

func (e *fakeEndpoints) Watch(ctx context.Context, service types.NamespacedName, _ int32, apply func([]routing.Endpoint)) error {
	return e.watch(ctx, func(awake map[types.NamespacedName]bool) {
		if awake[service] {
			apply([]routing.Endpoint{{Address: "10.0.0.1:8080", Ready: true, Function: true}})
			return
		}
		apply(nil)
	})
}

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

// fakeWants keeps the announced replicas of all Functions together.
type fakeWants struct {
	mu        sync.Mutex
	announced []int
	last      time.Time
	courses   []activation.Wake
}

func (w *fakeWants) AnnounceWoken(_ types.NamespacedName, course []byte) error {
	wake, err := activation.DecodeWake(course)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.courses = append(w.courses, wake)
	return nil
}

func (w *fakeWants) woken() []activation.Wake {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.courses)
}

func (w *fakeWants) AnnounceWanted(_ types.NamespacedName, replicas int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.announced, w.last = append(w.announced, replicas), time.Now()
	return nil
}

func (w *fakeWants) all() (announced []int, last time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.announced), w.last
}
