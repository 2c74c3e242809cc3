package eventbridge

import (
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rouse-run/rouse/internal/fair"
)

// ErrStopped means that the caller stopped before the work began.
var ErrStopped = errors.New("stopped before the work began")

// suspension is how long a tenant does nothing in place after light work of it turned out heavy.
const suspension = 10 * time.Second

// FilterPool hands out permits. It is safe for concurrent use.
type FilterPool struct {
	rests   bool  // a permit stays away for as long as it was used
	inPlace int32 // light work of one tenant at a time
	permits *fair.Pool

	mu      sync.Mutex
	tenants map[string]*tenant
}

// tenant shares the pool with others.
type tenant struct {
	name      string
	inPlace   atomic.Int32
	suspended atomic.Bool
	lanes     int // the pool's lock is held
}

// NewFilterPool makes a Pool for all processors that the process may use.
func NewFilterPool() *FilterPool { return newPool(runtime.GOMAXPROCS(0)) }

// newPool leaves half of the processors alone. Of a single one it leaves half of the time alone.
func newPool(processors int) *FilterPool {
	permits := int64(max(processors/2, 1))
	return &FilterPool{
		rests:   processors == 1,
		inPlace: int32(min(2*processors, 1024)),
		// A lane waits once, so the queue is bounded by the lanes. What is left over by others may all be used.
		permits: fair.NewPool(fair.Limits{Total: permits, PerKey: permits, Waiting: math.MaxInt64}),
		tenants: map[string]*tenant{},
	}
}

// Lane adds a lane to a tenant; Close takes it away.
func (p *FilterPool) Lane(name string) *Lane {
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

func (p *FilterPool) leave(t *tenant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t.lanes--; t.lanes == 0 {
		delete(p.tenants, t.name)
	}
}

// acquire waits for a permit.
func (p *FilterPool) acquire(t *tenant, stop <-chan struct{}) error {
	if err := p.permits.Acquire(stop, t.name, 1); err != nil {
		return ErrStopped
	}
	return nil
}

// finish charges a tenant for the time that it had a permit, and gives the permit on, of a single processor after a rest.
func (p *FilterPool) finish(t *tenant, took time.Duration) {
	if p.rests && took > 0 {
		time.AfterFunc(took, func() { p.release(t, took) })
		return
	}
	p.release(t, took)
}

func (p *FilterPool) release(t *tenant, took time.Duration) {
	p.permits.Charge(t.name, int64(took))
	p.permits.Release(t.name, 1)
}

// suspend keeps a tenant from working in place for a while.
func (t *tenant) suspend() {
	if t.suspended.CompareAndSwap(false, true) {
		time.AfterFunc(suspension, func() { t.suspended.Store(false) })
	}
}
