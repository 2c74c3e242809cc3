package identity

import (
	"crypto/sha256"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	rightFreshFor = 30 * time.Second // how long an answer allows
	// knownFor is how long a user counts as known, whose token is reviewed before those that were never good.
	knownFor        = 10 * time.Minute
	deniedFor       = 5 * time.Second
	rightRefusedFor = 10 * time.Second
	limitersFor     = time.Minute

	maxUsers     = 1024
	maxRefused   = 1024
	maxDecisions = 4096
	maxLimiters  = 1024
)

// hash stands for a token.
type hash = [sha256.Size]byte

// reviewed is a user, and when that was the answer.
type reviewed struct {
	user User
	at   time.Time
}

func (r reviewed) isFresh() bool { return time.Since(r.at) < rightFreshFor }

// question is whether the user of a token has a right.
type question struct {
	token hash
	right Right
}

// memory is a bounded cache whose oldest entries make room.
type memory[K comparable, V any] struct{ entries *cache.LRUExpireCache }

func remember[K comparable, V any](size int) memory[K, V] {
	return memory[K, V]{cache.NewLRUExpireCache(size)}
}

func (m memory[K, V]) get(key K) (value V, found bool) {
	entry, found := m.entries.Get(key)
	value, _ = entry.(V)
	return value, found
}

func (m memory[K, V]) add(key K, value V, lasts time.Duration) { m.entries.Add(key, value, lasts) }

func (m memory[K, V]) remove(key K) { m.entries.Remove(key) }

// limits bound how many reviews each source of new tokens, and each user, may cause.
type limits struct {
	mu    sync.Mutex
	known memory[string, *rate.Limiter]
	each  rate.Limit
	burst int
}

func newLimits(perSecond rate.Limit, burst int) *limits {
	return &limits{known: remember[string, *rate.Limiter](maxLimiters), each: perSecond, burst: burst}
}

func (l *limits) allow(whose string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter, found := l.known.get(whose)
	if !found {
		limiter = rate.NewLimiter(l.each, l.burst)
	}
	l.known.add(whose, limiter, limitersFor) // it lasts while it is used
	return limiter.Allow()
}
