package registryproxy

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// budgets bound what each account sends. There is one for each account that has logged in, so their number is that of
// the namespaces with builds.
type budgets struct {
	bytes    int64 // by hour
	requests int

	mu    sync.Mutex
	known map[string]*budget
}

// budget is what an account may still send.
type budget struct {
	bytes    *rate.Limiter
	requests chan struct{}
}

func newBudgets(bytesPerHour int64, requests int) *budgets {
	return &budgets{bytes: bytesPerHour, requests: requests, known: map[string]*budget{}}
}

func (b *budgets) of(account string) *budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.known[account]
	if found == nil {
		perSecond := rate.Limit(float64(b.bytes) / time.Hour.Seconds())
		found = &budget{bytes: rate.NewLimiter(perSecond, int(b.bytes)), requests: make(chan struct{}, b.requests)}
		b.known[account] = found
	}
	return found
}

// enter acquires one of the concurrent requests; leave releases it.
func (b *budget) enter() bool {
	select {
	case b.requests <- struct{}{}:
		return true
	default:
		return false
	}
}

func (b *budget) leave() { <-b.requests }

// spend reports whether so many bytes were left.
func (b *budget) spend(bytes int) bool { return b.bytes.AllowN(time.Now(), bytes) }
