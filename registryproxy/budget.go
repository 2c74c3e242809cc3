package registryproxy

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/rouse-run/rouse/internal/fair"
)

// What a request costs of the bytes that an account may push, besides those that it sends: files and folders in the registry's store,
// of which a volume has one for every 16 KiB.
const (
	inode       = 16 << 10
	uploadPrice = 4 * inode
	imagePrice  = 8 * inode
)

// uploadLife bounds the life of an abandoned upload: once an hour the registry deletes those that are two hours old.
const uploadLife = 3 * time.Hour

// limits holds fixed limits. Tests use smaller ones.
type limits struct {
	turnTimeout     time.Duration // bounds how long a request is queued
	perSecond       rate.Limit    // requests of an account
	burst           int
	uploads         int // open ones of an account
	copiesPerHour   int // of runtimes' images that an account adds
	strangers       int // concurrent requests without an account
	manifests       int // concurrent requests for manifests, which the registry holds in memory
	manifestBytes   int64
	manifestTimeout time.Duration // how long a manifest may take to arrive
}

func defaultLimits() limits {
	return limits{
		turnTimeout: 10 * time.Second, perSecond: 100, burst: 1000, uploads: 256, copiesPerHour: 60, strangers: 32,
		manifests: 16, manifestBytes: 24 << 20, manifestTimeout: 30 * time.Second,
	}
}

// budgets holds the rate limits of accounts: one budget per account that has logged in, so that their number is that of the namespaces with
// builds. Concurrency is shared fairly: an account gets no more of it than it leaves free.
type budgets struct {
	options Options
	limits  limits

	requests  *fair.Pool
	strangers *fair.Pool
	manifests *fair.Pool
	memory    *fair.Budget // for manifests that arrive

	mu    sync.Mutex
	known map[string]*budget
}

func newBudgets(options Options, l limits) *budgets {
	pool := func(total int) *fair.Pool {
		return fair.NewPool(fair.Limits{Total: int64(total), Waiting: 2 * int64(total)})
	}
	return &budgets{
		options: options, limits: l, known: map[string]*budget{},
		requests: pool(options.Requests), strangers: pool(l.strangers), manifests: pool(l.manifests), memory: fair.NewBudget(l.manifestBytes, chunk),
	}
}

func (b *budgets) of(account string) *budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.known[account]
	if found == nil {
		found = &budget{
			bytes:    byHour(b.options.BytesPerHour),
			images:   byHour(int64(b.options.ImagesPerHour)),
			copies:   byHour(int64(b.limits.copiesPerHour)),
			requests: rate.NewLimiter(b.limits.perSecond, b.limits.burst),
			most:     b.limits.uploads,
			open:     map[string]time.Time{},
		}
		b.known[account] = found
	}
	return found
}

func byHour(amount int64) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(float64(amount)/time.Hour.Seconds()), int(amount))
}

// wait acquires a slot of a pool in turn, within turnTimeout. leave releases it.
func (b *budgets) wait(ctx context.Context, pool *fair.Pool, key string) (leave func(), ok bool) {
	ctx, cancel := context.WithTimeout(ctx, b.limits.turnTimeout)
	defer cancel()
	return func() { pool.Release(key, 1) }, pool.Acquire(ctx.Done(), key, 1) == nil
}

// budget holds the rate limits of an account.
type budget struct {
	bytes, images, copies, requests *rate.Limiter

	mu      sync.Mutex
	most    int
	opening int
	open    map[string]time.Time // uploads by their paths, and when they began
}

// spend reports whether the account had so many bytes left.
func (b *budget) spend(bytes int) bool { return b.bytes.AllowN(time.Now(), bytes) }

// beginUpload reports whether the account may begin another upload. The caller has to call uploaded.
func (b *budget) beginUpload(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.open)+b.opening >= b.most {
		for path, began := range b.open {
			if now.Sub(began) > uploadLife {
				delete(b.open, path)
			}
		}
	}
	if len(b.open)+b.opening >= b.most {
		return false
	}
	b.opening++
	return true
}

// uploaded records the registry's response to the beginning of an upload. path is the path of the upload, empty if it failed.
func (b *budget) uploaded(path string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opening--
	if path != "" {
		b.open[path] = now
	}
}

// endUpload records that an upload ended, or is unknown to the registry.
func (b *budget) endUpload(path string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.open, path)
}
