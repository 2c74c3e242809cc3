package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// droppedPrefix begins the subjects of the markers for dropped dead letters.
	droppedPrefix = "rouse.dropped"
	// deadLetterSlack is the part of the stream, one of so many, that is freed at least at a time.
	deadLetterSlack = 16
	// maxStoreTries limits how often capacity is freed for one dead letter, because other bridges may use it up.
	maxStoreTries = 10
	// freeCapacityTimeout bounds freeing capacity, which reads at most what the stream holds.
	freeCapacityTimeout = time.Minute
)

// deadLetterCapacity frees capacity for dead letters, once at a time.
type deadLetterCapacity struct {
	freeing singleflight.Group
	wanted  atomic.Int64 // bytes of the dead letters that wait for capacity
	dropped func(namespace string, deadLetters uint64)
	largest string // the namespace that held most the last time; only freeing touches it
}

// OnDeadLettersDropped calls f whenever this process has dropped the oldest dead letters of a namespace, because the stream
// was full and no other namespace held more of it. Set it before the first dead letter is added.
func (c *Conn) OnDeadLettersDropped(f func(namespace string, deadLetters uint64)) {
	c.deadLetterCapacity.dropped = f
}

// storeDeadLetter stores a dead letter. While the stream is full it drops the oldest of the namespaces that hold most of it.
func (c *Conn) storeDeadLetter(ctx context.Context, deadLetter *nats.Msg) error {
	_, err := c.js.PublishMsg(ctx, deadLetter)
	if err = mapError(err); !errors.Is(err, ErrStorageFull) {
		return err
	}
	size := int64(deadLetter.Size()) + recordBytes
	c.deadLetterCapacity.wanted.Add(size)
	defer c.deadLetterCapacity.wanted.Add(-size)
	for tries := 0; errors.Is(err, ErrStorageFull) && tries < maxStoreTries; tries++ {
		if freeErr := c.freeCapacity(ctx, size); freeErr != nil {
			return fmt.Errorf("%w; no capacity could be freed: %w", err, freeErr)
		}
		_, err = c.js.PublishMsg(ctx, deadLetter)
		err = mapError(err)
	}
	return err
}

// freeCapacity frees capacity, or waits for another call that does, until ctx ends: the next try finds the capacity then.
func (c *Conn) freeCapacity(ctx context.Context, needed int64) error {
	made := c.deadLetterCapacity.freeing.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), freeCapacityTimeout)
		defer cancel()
		return nil, c.dropDeadLetters(ctx, needed)
	})
	select {
	case result := <-made:
		return mapError(result.Err)
	case <-ctx.Done():
		return mapError(ctx.Err())
	}
}

func (c *Conn) dropDeadLetters(ctx context.Context, needed int64) error {
	stream, err := c.js.Stream(ctx, DeadLetterStream)
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(DeadLetterSelection{}.filter()))
	if err != nil {
		return err
	}
	limit, used := info.Config.MaxBytes, int64(info.State.Bytes)
	if limit <= 0 || used+needed <= limit {
		return nil // another bridge has freed capacity, or it is not the stream that is full
	}
	held, err := c.deadLetterBytes(ctx, info.State.Subjects, used)
	if err != nil {
		return err
	}
	toFree := max(needed, min(c.deadLetterCapacity.wanted.Load(), limit/2), limit/deadLetterSlack)
	for namespace, bytes := range cutsOf(held, used-limit+toFree) {
		if err := c.dropOldest(ctx, namespace, bytes); err != nil {
			return err
		}
	}
	return nil
}

// deadLetterBytes is the number of bytes that each namespace's dead letters take. It reads them, except those of the namespace that held
// most the last time, or has most of them: that one holds the rest.
func (c *Conn) deadLetterBytes(ctx context.Context, subjects map[string]uint64, used int64) (map[string]int64, error) {
	counts := map[string]uint64{}
	for subject, count := range subjects {
		counts[deadLetterSubscription(subject).Namespace] += count
	}
	rest := c.deadLetterCapacity.largest
	if counts[rest] == 0 {
		for _, namespace := range slices.Sorted(maps.Keys(counts)) {
			if counts[namespace] > counts[rest] {
				rest = namespace
			}
		}
	}
	held := make(map[string]int64, len(counts))
	for namespace := range counts {
		if namespace == rest {
			continue
		}
		bytes := int64(0)
		err := c.readStored(ctx, DeadLetterStream, DeadLetterSelection{Namespace: namespace}.filter(), 0, func(m storedMessage) bool {
			bytes += m.size
			return true
		})
		if err != nil {
			return nil, err
		}
		held[namespace] = bytes
		used -= bytes
	}
	if rest != "" {
		held[rest] = max(used, 0)
	}
	c.deadLetterCapacity.largest = rest
	for namespace, bytes := range held {
		if bytes > held[c.deadLetterCapacity.largest] {
			c.deadLetterCapacity.largest = namespace
		}
	}
	return held, nil
}

// dropOldest deletes a namespace's oldest dead letters that take so many bytes, and stores a marker for each Subscription.
func (c *Conn) dropOldest(ctx context.Context, namespace string, bytes int64) error {
	filter := DeadLetterSelection{Namespace: namespace}.filter()
	last := uint64(0)
	of := map[string]bool{}
	err := c.readStored(ctx, DeadLetterStream, filter, 0, func(m storedMessage) bool {
		bytes -= m.size
		last = m.sequence
		of[m.subject] = true
		return bytes > 0
	})
	if err != nil || last == 0 {
		return err
	}
	dropped, err := c.purgeSubject(ctx, filter, last)
	if dropped > 0 {
		c.log.Info("dropped the oldest dead letters of a namespace that holds most of their stream",
			"namespace", namespace, "count", dropped)
		if c.deadLetterCapacity.dropped != nil {
			c.deadLetterCapacity.dropped(namespace, dropped)
		}
		for subject := range of {
			c.noteDropped(ctx, deadLetterSubscription(subject))
		}
	}
	return err
}

// noteDropped stores a marker for the controller. A marker is kept as long as dead letters; each Subscription has one at most.
func (c *Conn) noteDropped(ctx context.Context, subscription types.NamespacedName) {
	subject := subjectOf(droppedPrefix, subscription)
	_, err := c.js.PublishMsg(ctx, &nats.Msg{Subject: subject})
	if err == nil {
		_, err = c.purgeStream(ctx, DeadLetterStream, purgeRequest{Filter: subject, Keep: 1})
	}
	if err != nil {
		c.log.Info("cannot note that dead letters were dropped", "subscription", subscription.String(), "reason", mapError(err).Error())
	}
}

// DroppedDeadLetters returns the Subscriptions whose oldest dead letters were dropped, because the stream was full, within the
// maximum age of dead letters.
func (c *Conn) DroppedDeadLetters(ctx context.Context) (map[types.NamespacedName]bool, error) {
	counts, err := c.countBySubscription(ctx, DeadLetterStream, droppedPrefix, droppedPrefix+".>")
	if err != nil {
		return nil, fmt.Errorf("list dropped dead letters: %w", err)
	}
	dropped := make(map[types.NamespacedName]bool, len(counts))
	for subscription := range counts {
		dropped[subscription] = true
	}
	return dropped, nil
}

// deadLetterSubjects are what the stream of dead letters takes.
func deadLetterSubjects() []string {
	return []string{routing.DeadLetterPrefix + ".>", droppedPrefix + ".>"}
}

// cutsOf returns how much each holder has to give up so that all of them together give up excess. The largest holder gives
// first, down to what the next one holds, and then they go on together: what a holder has below that level it keeps.
func cutsOf(held map[string]int64, excess int64) map[string]int64 {
	largest := slices.SortedFunc(maps.Keys(held), func(a, b string) int {
		return cmp.Or(cmp.Compare(held[b], held[a]), cmp.Compare(a, b))
	})
	cuts := map[string]int64{}
	for i := range largest {
		next := int64(0)
		if i+1 < len(largest) {
			next = held[largest[i+1]]
		}
		givers := largest[:i+1]
		freed := int64(0) // that the givers make by going down to the next one
		for _, name := range givers {
			freed += held[name] - next
		}
		if freed < excess && i+1 < len(largest) {
			continue
		}
		level := next + max(freed-excess, 0)/int64(len(givers))
		for _, name := range givers {
			if cut := held[name] - level; cut > 0 {
				cuts[name] = cut
			}
		}
		return cuts
	}
	return cuts
}
