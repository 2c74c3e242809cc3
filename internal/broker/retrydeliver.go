package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// A retry that its consumer or the stream cannot take is put off by as long as it is late, within these bounds.
	firstPostponement = 4 * time.Second
	lastPostponement  = 64 * time.Second
	// orphanAge is how late a retry of another Subscription of the same name is before it is dropped: until then the
	// consumer may not have the UID yet.
	orphanAge = time.Minute
	// logInterval is the interval at which the same thing is logged.
	logInterval = time.Minute
)

// errOrphan means that a retry belongs to a Subscription that is gone, and another one has its name.
var errOrphan = errors.New("the retry's Subscription was deleted")

// deliver brings back what is due, and puts off what cannot come back.
func (f *forwarder) deliver(ctx context.Context, m *Message) {
	err := f.bringBack(ctx, m)
	first := firstDue(m.metadata.Timestamp, m.raw.Header)
	late := f.clock.Now().Sub(first)
	switch {
	case err == nil:
		f.settled(m, m.Ack(ctx))
	case errors.Is(err, errOrphan) && late > orphanAge:
		f.settled(m, m.Ack(ctx))
		f.logOrphan()
	case isAny(err, errOrphan, ErrConsumerNotFound, ErrStorageFull):
		f.move(ctx, m, min(max(late, firstPostponement), lastPostponement), first)
	default:
		f.conn.log.V(1).Info("cannot forward a retry yet", "reason", err.Error())
		f.settled(m, m.Return(ctx, time.Second))
	}
}

// move has a retry wait on. When that cannot be stored the server keeps it for a moment.
func (f *forwarder) move(ctx context.Context, m *Message, wait time.Duration, due time.Time) {
	header := m.carriedHeader()
	header.Del(headerDelay)
	header.Set(headerDue, strconv.FormatInt(due.UnixNano(), 10))
	header.Set(headerRetry, m.retryIdentity())
	header.Set(jetstream.MsgIDHeader, m.identity())
	size, subscription := waitingOf(m.raw.Subject)
	if size == "" {
		size = sizeClass(storedSize(header, m.raw.Data))
	}
	subject := retrySubject(levelOf(wait), size, subscription)
	_, err := f.conn.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Header: header, Data: m.raw.Data})
	if err != nil {
		f.conn.log.V(1).Info("cannot move a retry yet", "reason", err.Error())
		f.settled(m, m.Return(ctx, time.Second))
		return
	}
	f.settled(m, m.Ack(ctx))
}

// bringBack stores the event for its consumer.
func (f *forwarder) bringBack(ctx context.Context, m *Message) error {
	subject := m.raw.Header.Get(headerRedelivery)
	uid := m.raw.Header.Get(headerUID)
	header := m.carriedHeader()
	header.Del(headerDelay)
	header.Del(headerDue)
	header.Del(headerRedelivery)
	header.Del(headerRetry)
	header.Set(jetstream.MsgIDHeader, m.retryIdentity())
	message := &nats.Msg{Subject: subject, Header: header, Data: m.raw.Data}
	return f.consumers.publish(ctx, f.conn.js, subject[strings.LastIndexByte(subject, '.')+1:], uid, message)
}

// settled ends the work on a message. It needs no error: what is not settled comes again.
func (f *forwarder) settled(m *Message, err error) {
	m.Release()
	if err != nil {
		f.conn.log.V(1).Info("cannot settle a retry", "reason", err.Error())
	}
}

func (f *forwarder) logOrphan() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orphans++
	if time.Since(f.loggedAt) < logInterval {
		return
	}
	f.conn.log.Info("dropped retries of Subscriptions that were deleted, others have their names now", "retries", f.orphans)
	f.orphans, f.loggedAt = 0, time.Now()
}

// targetCacheTTL is how long a consumer is assumed to be as it was, before something is published for it. Afterwards it
// is inspected in any case.
const targetCacheTTL = 2 * time.Second

// targetCache caches since when the consumers exist that events come back to. The stream confirms and drops what is published
// for one that is gone.
type targetCache struct {
	find func(ctx context.Context, consumer string) (redeliveryTarget, error)

	mu          sync.Mutex
	targets     map[string]cachedTarget
	inspections map[string]*inspection // of consumers, that run
}

// redeliveryTarget is a consumer that takes what comes back.
type redeliveryTarget struct {
	since time.Time
	uid   string // of its Subscription, empty if not known
}

type cachedTarget struct {
	redeliveryTarget

	at time.Time
}

// inspection of a consumer is shared by all callers that wait for it.
type inspection struct {
	done  chan struct{}
	found redeliveryTarget
	err   error
	next  *inspection // for callers that came after it had begun
}

func newTargetCache(find func(ctx context.Context, consumer string) (redeliveryTarget, error)) *targetCache {
	return &targetCache{find: find, targets: map[string]cachedTarget{}, inspections: map[string]*inspection{}}
}

// publish stores what comes back to a consumer, and returns nil only if the consumer was there all the time. It is not
// stored when the consumer is that of another Subscription than the one with the UID. Either may not know its UID.
func (p *targetCache) publish(ctx context.Context, js jetstream.JetStream, consumer, uid string, message *nats.Msg) error {
	before, err := p.cached(ctx, consumer)
	if err != nil {
		return err
	}
	if uid != "" && before.uid != "" && uid != before.uid {
		return errOrphan
	}
	nameFor(message, before.since)
	if _, err := js.PublishMsg(ctx, message); err != nil {
		return mapError(err)
	}
	after, err := p.refresh(ctx, consumer)
	if err == nil && !after.since.Equal(before.since) {
		err = fmt.Errorf("the consumer was made again meanwhile: %w", ErrConsumerNotFound)
	}
	return err
}

// nameFor adds to the id of a message when the consumer was made that it comes back to. A stream remembers the ids of what it
// dropped, too, and would take the message for a duplicate when the consumer has been recreated.
func nameFor(message *nats.Msg, since time.Time) {
	id := message.Header.Get(jetstream.MsgIDHeader)
	message.Header.Set(jetstream.MsgIDHeader, id+"/"+strconv.FormatInt(since.UnixNano(), 10))
}

// cached is a consumer as it was inspected lately.
func (p *targetCache) cached(ctx context.Context, consumer string) (redeliveryTarget, error) {
	p.mu.Lock()
	last, ok := p.targets[consumer]
	p.mu.Unlock()
	if ok && time.Since(last.at) < targetCacheTTL {
		return last.redeliveryTarget, nil
	}
	return p.refresh(ctx, consumer)
}

// refresh inspects a consumer after the call. Calls that come while an inspection runs share the next.
func (p *targetCache) refresh(ctx context.Context, consumer string) (redeliveryTarget, error) {
	p.mu.Lock()
	mine := &inspection{done: make(chan struct{})}
	switch running := p.inspections[consumer]; {
	case running == nil:
		p.inspections[consumer] = mine
		go p.run(context.WithoutCancel(ctx), consumer, mine)
	case running.next == nil:
		running.next = mine
	default:
		mine = running.next
	}
	p.mu.Unlock()
	select {
	case <-mine.done:
		return mine.found, mine.err
	case <-ctx.Done():
		return redeliveryTarget{}, mapError(ctx.Err())
	}
}

// run inspects a consumer until no call waits for another inspection.
func (p *targetCache) run(ctx context.Context, consumer string, current *inspection) {
	for current != nil {
		began := time.Now()
		inspecting, cancel := context.WithTimeout(ctx, inspectTimeout)
		current.found, current.err = p.find(inspecting, consumer)
		cancel()
		p.mu.Lock()
		p.remember(consumer, cachedTarget{redeliveryTarget: current.found, at: began}, current.err)
		following := current.next
		if following == nil {
			delete(p.inspections, consumer)
		} else {
			p.inspections[consumer] = following
		}
		p.mu.Unlock()
		close(current.done)
		current = following
	}
}

// remember is called with the lock held.
func (p *targetCache) remember(consumer string, now cachedTarget, err error) {
	for name, last := range p.targets {
		if time.Since(last.at) > targetCacheTTL {
			delete(p.targets, name)
		}
	}
	if err != nil {
		delete(p.targets, consumer)
	} else {
		p.targets[consumer] = now
	}
}
