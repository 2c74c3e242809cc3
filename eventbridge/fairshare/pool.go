package fairshare

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrStopped means that the caller stopped before the work began.
var ErrStopped = errors.New("stopped before the work began")

// suspension is how long a tenant does nothing in place after light work of it turned out heavy.
const suspension = 10 * time.Second

// Pool hands out permits. It is safe for concurrent use.
type Pool struct {
	rests   bool  // a permit stays away for as long as it was used
	inPlace int32 // light work of one tenant at a time

	mu      sync.Mutex
	free    int
	tenants map[string]*tenant
	floor   time.Duration // what the tenant that got the last permit had used
}

// tenant shares the pool with others.
type tenant struct {
	name      string
	inPlace   atomic.Int32
	suspended atomic.Bool

	// The pool's lock is held for these.
	lanes   int
	used    time.Duration
	waiting []chan struct{} // closed when a permit is theirs
}

// New makes a Pool for all processors that the process may use.
func New() *Pool { return newPool(runtime.GOMAXPROCS(0)) }

// newPool leaves half of the processors alone. Of a single one it leaves half of the time alone.
func newPool(processors int) *Pool {
	return &Pool{
		rests:   processors == 1,
		inPlace: int32(min(2*processors, 1024)),
		free:    max(processors/2, 1),
		tenants: map[string]*tenant{},
	}
}

// Lane adds a lane to a tenant; Close takes it away.
func (p *Pool) Lane(name string) *Lane {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tenants[name]
	if t == nil {
		t = &tenant{name: name}
		p.tenants[name] = t
	}
	t.lanes++
	return &Lane{pool: p, tenant: t, slot: make(chan struct{}, 1)}
}

func (p *Pool) leave(t *tenant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.lanes--; t.lanes == 0 {
		delete(p.tenants, t.name)
	}
}

// acquire waits for a permit.
func (p *Pool) acquire(t *tenant, stop <-chan struct{}) error {
	permit := p.ask(t)
	if permit == nil {
		return nil
	}
	select {
	case <-permit:
		return nil
	case <-stop:
		if !p.withdraw(t, permit) {
			p.release(t, 0) // it came in the same moment
		}
		return ErrStopped
	}
}

// ask takes a permit, or returns what is closed when there is one.
func (p *Pool) ask(t *tenant) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free > 0 { // then no tenant waits
		p.free--
		return nil
	}
	if len(t.waiting) == 0 {
		t.used = max(t.used, p.floor) // what it has not used while it rested is not saved up
	}
	permit := make(chan struct{})
	t.waiting = append(t.waiting, permit)
	return permit
}

// withdraw reports false when the permit was given already.
func (p *Pool) withdraw(t *tenant, permit <-chan struct{}) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(t.waiting, func(c chan struct{}) bool { return c == permit })
	if i < 0 {
		return false
	}
	t.waiting = slices.Delete(t.waiting, i, i+1)
	return true
}

// release notes what a permit was used for and gives it to the next tenant.
func (p *Pool) release(t *tenant, took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.used += took
	next := p.next()
	if next == nil {
		p.free++
		return
	}
	p.floor = max(p.floor, next.used)
	close(next.waiting[0])
	next.waiting = next.waiting[1:]
}

// next is the tenant that has used the least of those that wait.
func (p *Pool) next() *tenant {
	var least *tenant
	for _, t := range p.tenants {
		if len(t.waiting) > 0 && (least == nil || t.used < least.used) {
			least = t
		}
	}
	return least
}

// finish is release after the rest that a single processor needs.
func (p *Pool) finish(t *tenant, took time.Duration) {
	if p.rests && took > 0 {
		time.AfterFunc(took, func() { p.release(t, took) })
		return
	}
	p.release(t, took)
}

// suspend keeps a tenant from working in place for a while.
func (t *tenant) suspend() {
	if t.suspended.CompareAndSwap(false, true) {
		time.AfterFunc(suspension, func() { t.suspended.Store(false) })
	}
}
