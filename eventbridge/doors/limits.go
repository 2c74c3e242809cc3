package doors

import (
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/cache"
)

const (
	// verifiedFor is how long a sender's address is known after a request of it was verified.
	verifiedFor = time.Hour
	// maxVerified and maxStrangers bound the addresses of a Door that are remembered.
	maxVerified  = 256
	maxStrangers = 1024
	strangersFor = time.Minute
	burst        = 2
)

// limiter bounds the requests to a Door that are read. An address of whom a request was verified has a share of its own, so that no
// number of strangers takes it away.
type limiter struct {
	each      rate.Limit
	strangers *rate.Limiter // together
	verified  *cache.LRUExpireCache
	addresses *cache.LRUExpireCache // of strangers
}

func newLimiter(perSecond int) *limiter {
	return &limiter{
		each: rate.Limit(perSecond), strangers: rate.NewLimiter(rate.Limit(perSecond), burst*perSecond),
		verified: cache.NewLRUExpireCache(maxVerified), addresses: cache.NewLRUExpireCache(maxStrangers),
	}
}

// admit reports whether a request of an address is read now.
func (l *limiter) admit(address string, now time.Time) bool {
	if known, ok := l.verified.Get(address); ok {
		if own, ok := known.(*rate.Limiter); ok {
			return own.AllowN(now, 1)
		}
	}
	var own *rate.Limiter
	if known, ok := l.addresses.Get(address); ok {
		own, _ = known.(*rate.Limiter)
	}
	if own == nil {
		own = rate.NewLimiter(max(l.each/2, 1), max(int(l.each), 1))
		l.addresses.Add(address, own, strangersFor)
	}
	return own.AllowN(now, 1) && l.strangers.AllowN(now, 1)
}

// verify remembers an address of whom a request was verified.
func (l *limiter) verify(address string) {
	own, known := l.verified.Get(address)
	if !known {
		own = rate.NewLimiter(l.each, burst*int(l.each))
	}
	l.verified.Add(address, own, verifiedFor)
}
