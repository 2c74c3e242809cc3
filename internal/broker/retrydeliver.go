package broker

import (
	"context"
	"errors"
	"strconv"
	"strings"
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
	// logInterval is how often the same thing is logged.
	logInterval = time.Minute
)

// errOrphan means that a retry belongs to a Subscription that is gone, and another one has its name.
var errOrphan = errors.New("the Subscription that the retry was for is gone")

// deliver brings back what is due, and puts off what cannot come back.
func (f *forwarder) deliver(ctx context.Context, m *Message) {
	err := f.bringBack(ctx, m)
	first := firstDue(m.metadata.Timestamp, m.raw.Header)
	late := f.clock.now().Sub(first)
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
	header.Set(jetstream.MsgIDHeader, m.identity())
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
