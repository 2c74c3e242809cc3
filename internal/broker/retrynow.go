package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// MaxRetriedNow bounds what one call brings back.
	MaxRetriedNow = 1000
	// maxRetriesScanned bounds what one call looks at, also of what it leaves alone.
	maxRetriesScanned = 10 * MaxRetriedNow
	// soonTime is the remaining wait of a retry that a bridge may have in hand, or get while it is brought back. It is left alone, because the
	// bridge would store it once more for the rest of its delay, or bring it back after the stream has forgotten its id.
	soonTime = 4 * handTime
	// maxRetryPasses bounds how often retries are looked for again that moved from one level to the next meanwhile.
	maxRetryPasses = 3
)

// Retried is the result of RetryNow.
type Retried struct {
	// Retried events are back with their Subscription's consumer.
	Retried uint64
	// Failed retries wait on; Problems has the reasons.
	Failed uint64
	// Remaining retries of the Subscription still wait, those that are due within moments among them.
	Remaining uint64
	// Problems has each reason of a failure once.
	Problems []string
}

// RetryNow brings events of a Subscription that wait for their next attempt back to its consumer now, MaxRetriedNow at most, those first that have
// waited longest. What was stored after the call began is left alone, so that what fails again does not go in circles.
//
// No event is lost, because a retry is deleted only after its event is stored for a consumer that was there before and after. None is doubled: a
// retry that a bridge may be working on goes on by itself, and one whose deletion was not confirmed has an id by which the stream recognises
// it within its window for duplicates. ErrConsumerNotFound means that the Subscription has no consumer. The result counts what was done also when there is an error.
func (c *Conn) RetryNow(ctx context.Context, stream string, subscription types.NamespacedName) (Retried, error) {
	r := &retryNow{forwarder: newForwarder(c, stream), subscription: subscription, problems: map[string]bool{}}
	err := r.run(ctx, stream)
	r.done.Problems = slices.Sorted(maps.Keys(r.problems))
	counting, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.requestTimeout)
	defer cancel()
	counts, countErr := c.WaitingRetries(counting)
	r.done.Remaining = counts[subscription]
	if err = errors.Join(err, countErr); err != nil {
		return r.done, fmt.Errorf("retry now: %w", mapError(err))
	}
	return r.done, nil
}

// retryNow is one call of RetryNow.
type retryNow struct {
	forwarder    *forwarder
	subscription types.NamespacedName
	retries      jetstream.Stream
	// moving has the identities of retries that go from one level to the next about now.
	moving   map[string]bool
	tried    int
	scanned  int
	done     Retried
	problems map[string]bool
}

func (r *retryNow) run(ctx context.Context, stream string) error {
	c := r.forwarder.conn
	if _, err := c.redeliveryConsumer(ctx, stream, routing.ConsumerName(r.subscription.Namespace, r.subscription.Name)); err != nil {
		return err
	}
	if err := r.forwarder.clock.query(ctx); err != nil {
		return err
	}
	var err error
	if r.retries, err = c.js.Stream(ctx, RetryStream); err != nil {
		return err
	}
	last, only := r.retries.CachedInfo().State.LastSeq, map[string]bool(nil)
	for range maxRetryPasses {
		r.moving = map[string]bool{}
		if err := r.pass(ctx, last, only); err != nil || len(r.moving) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(soonTime):
		}
		last, only = math.MaxUint64, r.moving
	}
	return nil
}

// pass goes over the retries up to a sequence, in batches; only over those with the identities, if there are some.
func (r *retryNow) pass(ctx context.Context, last uint64, only map[string]bool) error {
	scan := &deadLetterScan{stream: r.retries, filter: subjectOf(delayPrefix+".*.*", r.subscription), last: last}
	for r.tried < MaxRetriedNow {
		batch, err := r.batch(ctx, scan, only)
		if err != nil || len(batch) == 0 {
			return err
		}
		if err := r.finish(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// returning is a retry on its way back.
type returning struct {
	*Message

	next    time.Time
	deleted bool
	err     error
}

// batch returns the next retries that are to come back; none at the end.
func (r *retryNow) batch(ctx context.Context, scan *deadLetterScan, only map[string]bool) ([]returning, error) {
	var batch []returning
	for size := 0; len(batch) < redriveInFlight && size < redriveBatchBytes && r.tried < MaxRetriedNow; {
		if r.scanned++; r.scanned > maxRetriesScanned {
			return batch, nil
		}
		raw, err := scan.next(ctx)
		if err != nil || raw == nil {
			return batch, err
		}
		m, level := waitingMessage(r.forwarder.conn, raw)
		if only != nil && !only[m.retryIdentity()] {
			continue
		}
		due, next := level.schedule(raw.Time, raw.Header)
		switch now := r.forwarder.clock.Now(); {
		case due.Sub(now) < soonTime:
			continue
		case next.Sub(now) < soonTime:
			r.moving[m.retryIdentity()] = true
			continue
		}
		r.tried++
		size += len(raw.Data)
		batch = append(batch, returning{Message: m, next: next})
	}
	return batch, nil
}

// waitingMessage returns a retry as a bridge would get it from the consumer of its level.
func waitingMessage(c *Conn, raw *jetstream.RawStreamMsg) (*Message, retryLevel) {
	name, _, _ := strings.Cut(strings.TrimPrefix(raw.Subject, delayPrefix+"."), ".")
	level := retryLevel(0)
	if wait, err := time.ParseDuration(name); err == nil {
		level = levelOf(wait)
	}
	return &Message{
		conn: c, raw: &nats.Msg{Subject: raw.Subject, Header: raw.Header, Data: raw.Data},
		metadata: &nats.MsgMetadata{
			Sequence: nats.SequencePair{Stream: raw.Sequence}, Timestamp: raw.Time, Stream: RetryStream, Consumer: level.consumer(),
		},
	}, level
}

// finish brings a batch back, and deletes what is stored. Once begun it ends in time, whatever becomes of the request.
func (r *retryNow) finish(ctx context.Context, batch []returning) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), redriveTimeout)
	defer cancel()
	eachOf(len(batch), func(i int) {
		each := &batch[i]
		if each.next.Sub(r.forwarder.clock.Now()) < handTime+retryUnit {
			return // the batch took so long that a bridge may have it by now
		}
		if each.err = r.forwarder.bringBack(ctx, each.Message); each.err == nil {
			each.deleted, each.err = deleteDeadLetter(ctx, r.retries, each.Sequence())
		}
	})
	for i := range batch {
		switch err := mapError(batch[i].err); {
		case batch[i].deleted:
			r.done.Retried++
		case err == nil: // a bridge was quicker, or will be
			r.moving[batch[i].retryIdentity()] = true
		case isAny(err, ErrNotConnected, ErrTimeout, ErrNoStream):
			return err
		default:
			r.done.Failed++
			r.problems[problemOf(err)] = true
		}
	}
	return nil
}

func problemOf(err error) string {
	if errors.Is(err, errOrphan) {
		return "it waits for a Subscription of the same name that was deleted"
	}
	return err.Error()
}
