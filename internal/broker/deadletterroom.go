package broker

import (
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
	letterSlack = 16
	// maxStoreTries is how often capacity is freed for one dead letter, because other bridges may use it up.
	letterTries = 10
	// freeCapacityTimeout bounds freeing capacity, which reads at most what the stream holds.
	roomTimeout = time.Minute
)

// deadLetterCapacity frees capacity for dead letters, once at a time.
type letterRoom struct {
	making  singleflight.Group
	wanted  atomic.Int64 // bytes of the dead letters that wait for capacity
	dropped func(namespace string, letters uint64)
	largest string // the namespace that held most the last time; only freeing touches it
}

// OnLettersDropped calls f whenever this process has dropped the oldest dead letters of a namespace, because the stream
// was full and no other namespace held more of it. Set it before the first dead letter is added.
func (c *Conn) OnLettersDropped(f func(namespace string, letters uint64)) { c.room.dropped = f }

// storeDeadLetter stores a dead letter. While the stream is full it drops the oldest of the namespaces that hold most of it.
func (c *Conn) storeLetter(ctx context.Context, letter *nats.Msg) error {
	_, err := c.js.PublishMsg(ctx, letter)
	if err = mapError(err); !errors.Is(err, ErrStorageFull) {
		return err
	}
	size := int64(letter.Size()) + recordBytes
	c.room.wanted.Add(size)
	defer c.room.wanted.Add(-size)
	for tries := 0; errors.Is(err, ErrStorageFull) && tries < letterTries; tries++ {
		if freeErr := c.makeRoom(ctx, size); freeErr != nil {
			return fmt.Errorf("%w; no capacity could be freed: %w", err, freeErr)
		}
		_, err = c.js.PublishMsg(ctx, letter)
		err = mapError(err)
	}
	return err
}

// freeCapacity frees capacity, or waits for another call that does, until ctx ends: the next try finds the capacity then.
func (c *Conn) makeRoom(ctx context.Context, needed int64) error {
	made := c.room.making.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), roomTimeout)
		defer cancel()
		return nil, c.dropLetters(ctx, needed)
	})
	select {
	case result := <-made:
		return mapError(result.Err)
	case <-ctx.Done():
		return mapError(ctx.Err())
	}
}

func (c *Conn) dropLetters(ctx context.Context, needed int64) error {
	stream, err := c.js.Stream(ctx, DeadLetterStream)
	if err != nil {
		return err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(LetterSelection{}.filter()))
	if err != nil {
		return err
	}
	limit, used := info.Config.MaxBytes, int64(info.State.Bytes)
	if limit <= 0 || used+needed <= limit {
		return nil // another bridge has freed capacity, or it is not the stream that is full
	}
	held, err := c.heldLetters(ctx, info.State.Subjects, used)
	if err != nil {
		return err
	}
	toFree := max(needed, min(c.room.wanted.Load(), limit/2), limit/letterSlack)
	for namespace, bytes := range cutsOf(held, used-limit+toFree) {
		if err := c.dropOldest(ctx, namespace, bytes); err != nil {
			return err
		}
	}
	return nil
}

// deadLetterBytes is how many bytes each namespace's dead letters take. It reads them, except those of the namespace that held
// most the last time, or has most of them: that one holds the rest.
func (c *Conn) heldLetters(ctx context.Context, subjects map[string]uint64, used int64) (map[string]int64, error) {
	counts := map[string]uint64{}
	for subject, count := range subjects {
		counts[letterSubscription(subject).Namespace] += count
	}
	rest := c.room.largest
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
		err := c.readStored(ctx, DeadLetterStream, LetterSelection{Namespace: namespace}.filter(), 0, func(m storedMessage) bool {
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
	c.room.largest = rest
	for namespace, bytes := range held {
		if bytes > held[c.room.largest] {
			c.room.largest = namespace
		}
	}
	return held, nil
}

// dropOldest deletes a namespace's oldest dead letters that take so many bytes, and stores a marker for each Subscription.
func (c *Conn) dropOldest(ctx context.Context, namespace string, bytes int64) error {
	filter := LetterSelection{Namespace: namespace}.filter()
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
		if c.room.dropped != nil {
			c.room.dropped(namespace, dropped)
		}
		for subject := range of {
			c.noteDropped(ctx, letterSubscription(subject))
		}
	}
	return err
}

// noteDropped stores a marker for the controller. A marker is kept as long as dead letters; each Subscription has one at most.
func (c *Conn) noteDropped(ctx context.Context, subscription types.NamespacedName) {
	subject := subjectOf(droppedPrefix, subscription)
	_, err := c.js.PublishMsg(ctx, &nats.Msg{Subject: subject})
	if err == nil {
		_, err = c.purgeLetters(ctx, purgeRequest{Filter: subject, Keep: 1})
	}
	if err != nil {
		c.log.Info("cannot note that dead letters were dropped", "subscription", subscription.String(), "reason", mapError(err).Error())
	}
}

// DroppedLetters are the Subscriptions whose oldest dead letters were dropped, because the stream was full, within the
// maximum age of dead letters.
func (c *Conn) DroppedLetters(ctx context.Context) (map[types.NamespacedName]bool, error) {
	counts, err := c.countBySubscription(ctx, DeadLetterStream, droppedPrefix, droppedPrefix+".>")
	if err != nil {
		return nil, fmt.Errorf("ask for dropped dead letters: %w", err)
	}
	dropped := make(map[types.NamespacedName]bool, len(counts))
	for subscription := range counts {
		dropped[subscription] = true
	}
	return dropped, nil
}

// deadLetterSubjects are what the stream of dead letters takes.
func letterSubjects() []string {
	return []string{routing.DeadLetterPrefix + ".>", droppedPrefix + ".>"}
}
