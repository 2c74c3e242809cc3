package broker

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// handTime is how soon a retry has to go on for a bridge to keep it in hand until then. It is much shorter than
	// retryAckWait, and what is further away is left to the server, which sends it again this much before.
	handTime = 2 * retryUnit
	// maxForwards of a level at a time, so that those of one do not take the places of another.
	maxForwards = 64
	// fetchSize is how many retries of a level a bridge asks for at a time.
	fetchSize = 128
	// A retry that its consumer or the stream cannot take is put off by as long as it is late, within these bounds.
	firstPostponement = 4 * time.Second
	lastPostponement  = 64 * time.Second
	// orphanAge is how late a retry of another Subscription of the same name is before it is dropped: until then the
	// consumer may not know yet whose it is.
	orphanAge = time.Minute
	// tellInterval is how often the log tells of the same thing.
	tellInterval = time.Minute
)

// errOrphan means that a retry belongs to a Subscription that is gone, and another one has its name.
var errOrphan = errors.New("the Subscription that the retry was for is gone")

// ForwardRetries brings events back to their consumers when they are due, until ctx
// ends. Any number of processes may do so at the same time.
func (c *Conn) ForwardRetries(ctx context.Context, stream string) {
	f := newForwarder(c, stream)
	var running sync.WaitGroup
	running.Go(func() { f.clock.keep(ctx, c) })
	for level := range lastRetryLevel + 1 {
		running.Go(func() { f.run(ctx, level.consumer(), f.takeAt(level)) })
	}
	running.Go(func() { f.run(ctx, retryConsumer, f.takeOld) })
	running.Wait()
}

// forwarder moves retries on.
type forwarder struct {
	conn      *Conn
	consumers *presence
	clock     *serverClock

	mu      sync.Mutex
	orphans int       // dropped since the log told of them
	told    time.Time // of orphans
}

func newForwarder(c *Conn, stream string) *forwarder {
	find := func(ctx context.Context, consumer string) (taker, error) {
		info, err := c.redeliveryInfo(ctx, stream, consumer)
		if err != nil {
			return taker{}, err
		}
		return taker{since: info.Created, uid: info.Config.Metadata[MetadataUID]}, nil
	}
	return &forwarder{conn: c, consumers: newPresence(find), clock: newServerClock()}
}

// lane is what a bridge has in hand of one level.
type lane struct {
	places  chan struct{}
	running sync.WaitGroup
}

// do works on a retry when there is a place, also when ctx has ended.
func (l *lane) do(ctx context.Context, work func(context.Context)) {
	l.running.Go(func() {
		l.places <- struct{}{}
		defer func() { <-l.places }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		work(ctx)
	})
}

// run takes the retries of one consumer until ctx ends, and returns when nothing is in hand.
func (f *forwarder) run(ctx context.Context, consumer string, take func(context.Context, *lane, *Message)) {
	l := &lane{places: make(chan struct{}, maxForwards)}
	defer l.running.Wait()
	select {
	case <-f.clock.ready:
	case <-ctx.Done():
	}
	source := NewSource(f.conn, RetryStream, consumer, types.NamespacedName{}, fetchSize/2)
	for ctx.Err() == nil {
		err := source.Receive(ctx, nil, func(m *Message) { take(ctx, l, m) })
		if err != nil && !isAny(err, ErrNotConnected, ErrConsumerNotFound) {
			f.conn.log.Info("cannot forward retries, trying again", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// takeAt keeps in hand what goes on soon, and lets the server keep the time of the rest, of which it shows no more than
// maxRetriesAhead.
func (f *forwarder) takeAt(level retryLevel) func(context.Context, *lane, *Message) {
	return func(ctx context.Context, l *lane, m *Message) {
		due, look := level.schedule(m.metadata.Timestamp, m.raw.Header)
		wait := look.Sub(f.clock.now())
		if wait > handTime {
			f.settled(m.Return(ctx, wait-handTime/2))
			return
		}
		goOn := func() { l.do(ctx, func(ctx context.Context) { f.goOn(ctx, m, due) }) }
		if wait <= 0 {
			goOn()
			return
		}
		l.running.Go(func() {
			timer := time.NewTimer(wait)
			defer timer.Stop()
			select {
			case <-timer.C:
				goOn()
			case <-ctx.Done():
				f.settled(m.Return(context.WithoutCancel(ctx), 0))
			}
		})
	}
}

// goOn brings a retry back that is due, and has another one wait for the rest of its delay.
func (f *forwarder) goOn(ctx context.Context, m *Message, due time.Time) {
	if rest := due.Sub(f.clock.now()); rest >= retryUnit {
		f.move(ctx, m, rest, due)
		return
	}
	err := f.bringBack(ctx, m)
	first := firstDue(m.metadata.Timestamp, m.raw.Header)
	late := f.clock.now().Sub(first)
	switch {
	case err == nil:
		f.settled(m.Ack(ctx))
	case errors.Is(err, errOrphan) && late > orphanAge:
		f.settled(m.Ack(ctx))
		f.tellOfOrphan()
	case isAny(err, errOrphan, ErrConsumerNotFound, ErrStorageFull):
		f.move(ctx, m, min(max(late, firstPostponement), lastPostponement), first)
	default:
		f.conn.log.V(1).Info("cannot forward a retry yet", "reason", err.Error())
		f.settled(m.Return(ctx, time.Second))
	}
}

// move has a retry wait on. When that cannot be stored the server keeps it for a moment.
func (f *forwarder) move(ctx context.Context, m *Message, wait time.Duration, due time.Time) {
	header := m.carriedHeader()
	header.Del(headerDelay)
	header.Set(headerDue, strconv.FormatInt(due.UnixNano(), 10))
	header.Set(jetstream.MsgIDHeader, m.identity())
	size, subscription := waitingOf(m.raw.Subject)
	if size == "" {
		size = sizeClass(storedSize(header, m.raw.Data))
	}
	subject := retrySubject(levelOf(wait), size, subscription)
	_, err := f.conn.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Header: header, Data: m.raw.Data})
	if err != nil {
		f.conn.log.V(1).Info("cannot move a retry yet", "reason", err.Error())
		f.settled(m.Return(ctx, time.Second))
		return
	}
	f.settled(m.Ack(ctx))
}

// bringBack stores the event for its consumer.
func (f *forwarder) bringBack(ctx context.Context, m *Message) error {
	subject := m.raw.Header.Get(headerRedelivery)
	uid := m.raw.Header.Get(headerUID)
	header := m.carriedHeader()
	header.Del(headerDelay)
	header.Del(headerDue)
	header.Del(headerRedelivery)
	header.Set(jetstream.MsgIDHeader, m.identity())
	message := &nats.Msg{Subject: subject, Header: header, Data: m.raw.Data}
	return f.consumers.publish(ctx, f.conn.js, subject[strings.LastIndexByte(subject, '.')+1:], uid, message)
}

// settled needs no error: what is not settled comes again.
func (f *forwarder) settled(err error) {
	if err != nil {
		f.conn.log.V(1).Info("cannot settle a retry", "reason", err.Error())
	}
}

func (f *forwarder) tellOfOrphan() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orphans++
	if time.Since(f.told) < tellInterval {
		return
	}
	f.conn.log.Info("dropped retries of Subscriptions that were deleted, others have their names now", "retries", f.orphans)
	f.orphans, f.told = 0, time.Now()
}
