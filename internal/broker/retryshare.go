package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// ErrRetryShare means that so many retries of a namespace or Subscription wait that no more are taken.
var ErrRetryShare = errors.New("too many waiting retries")

const (
	// countedFor is how long a count of waiting retries is used, to which this process adds its own; countingShare
	// bounds the part of the time that counting takes.
	countedFor    = 2 * time.Second
	countingShare = 20
	// maxCounted namespaces are remembered.
	maxCounted = 1024
	// spreadPerSecond is the number of retries of a namespace that may come due in one second before further ones are spread.
	spreadPerSecond = 1000
)

// retryShares keeps the retries of one namespace from taking the storage and the time of others. A namespace may hold as
// many bytes of the stream as are free, and a Subscription half as many: so one namespace gets half of the
// stream at most, two a third each, and there is always storage for the next.
type retryShares struct {
	conn *Conn

	mu      sync.Mutex
	counted map[string]*retryCount
}

// retryCount is what waits of one namespace.
type retryCount struct {
	mu       sync.Mutex
	until    time.Time
	free     uint64 // bytes of the stream
	waiting  uint64 // retries
	bytes    uint64
	bySource map[string]uint64 // bytes of each Subscription
	loggedAt time.Time
}

func newRetryShares(conn *Conn) *retryShares {
	return &retryShares{conn: conn, counted: map[string]*retryCount{}}
}

// admit counts one more retry and returns how long it has to wait: longer, by up to twice as long, when so many
// of its namespace wait that they would come due at once. What cannot be counted is admitted, and the stream bounds it.
func (s *retryShares) admit(
	ctx context.Context, subscription types.NamespacedName, size string, delay time.Duration,
) (time.Duration, error) {
	count := s.of(subscription.Namespace)
	count.mu.Lock()
	defer count.mu.Unlock()
	if time.Now().After(count.until) {
		began := time.Now()
		if err := s.conn.countRetries(ctx, subscription.Namespace, count); err != nil {
			return delay, nil
		}
		count.until = time.Now().Add(max(countedFor, countingShare*time.Since(began)))
	}
	if err := count.add(subscription.Name, classBytes(size)); err != nil {
		if time.Since(count.loggedAt) > logInterval {
			count.loggedAt = time.Now()
			s.conn.log.Info("cannot store further retries: events wait in their consumers", "namespace", subscription.Namespace, "subscription", subscription.Name,
				"reason", err.Error())
		}
		return 0, err
	}
	return spread(delay, count.waiting, rand.Float64()), nil //nolint:gosec // no secret
}

// of forgets a namespace when there are too many.
func (s *retryShares) of(namespace string) *retryCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := s.counted[namespace]
	if count == nil {
		for other := range s.counted {
			if len(s.counted) < maxCounted {
				break
			}
			delete(s.counted, other)
		}
		count = &retryCount{}
		s.counted[namespace] = count
	}
	return count
}

// add counts a retry, unless it exceeds a share.
func (c *retryCount) add(name string, bytes uint64) error {
	switch {
	case c.bySource[name]+bytes > c.free/2:
		return fmt.Errorf("%w: those of the Subscription hold %d bytes, and half of the %d that are free is its share",
			ErrRetryShare, c.bySource[name], c.free)
	case c.bytes+bytes > c.free:
		return fmt.Errorf("%w: those of the namespace hold %d bytes, and the %d that are free are its share",
			ErrRetryShare, c.bytes, c.free)
	}
	c.waiting++
	c.bytes += bytes
	c.bySource[name] += bytes
	c.free -= bytes
	return nil
}

// spread makes a delay longer at random when many wait: a sink can ask for all of them at one moment.
func spread(delay time.Duration, waiting uint64, random float64) time.Duration {
	if waiting <= spreadPerSecond {
		return delay
	}
	window := time.Duration(waiting-spreadPerSecond) * time.Second / spreadPerSecond
	return min(delay+time.Duration(random*float64(min(window, delay))), MaxRetryDelay)
}

// countRetries asks the stream what waits of a namespace. The events of detached calls take storage as well.
func (c *Conn) countRetries(ctx context.Context, namespace string, count *retryCount) error {
	info, err := c.subjects(ctx, RetryStream, strings.Join([]string{"rouse.*.*.*", namespace, ">"}, "."))
	if err != nil {
		return err
	}
	count.waiting, count.bytes, count.bySource = 0, 0, map[string]uint64{}
	for subject, n := range info.State.Subjects {
		size, subscription := waitingOf(subject)
		if subscription.Namespace != namespace { // a name of the old form has the namespace as a part
			continue
		}
		bytes := n * classBytes(size)
		if !isDetached(subject) {
			count.waiting += n
		}
		count.bytes += bytes
		count.bySource[subscription.Name] += bytes
	}
	count.free = uint64(max(info.Config.MaxBytes-int64(info.State.Bytes), 0))
	return nil
}
