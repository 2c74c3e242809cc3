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
	"k8s.io/apimachinery/pkg/types"
)

// RetryStream holds the events that wait for their next attempt.
const RetryStream = "rouse-retries"

// Headers of an event that waits for an attempt, or came back for one.
const (
	// HeaderAttempts is how many attempts there were.
	HeaderAttempts = "Rouse-Attempts"
	// HeaderSubject is what the event was published under.
	HeaderSubject = "Rouse-Subject"
	// HeaderStored is when the stream took the event first.
	HeaderStored = "Rouse-Stored"

	headerDue        = "Rouse-Due"        // nanoseconds since 1970
	headerRedelivery = "Rouse-Redelivery" // where the event goes then
)

const (
	retryPrefix   = "rouse.retry"
	retryConsumer = "rouse-retries"
	// retryWindow is how long a repeated retry is recognised.
	retryWindow = 10 * time.Minute
	// retryAckWait is how long a retry is missed whose bridge was killed while it brought it
	// back, which takes milliseconds. Where it takes longer a second bridge does the same,
	// and the stream of events, which knows the retry by its id, stores it once.
	retryAckWait = 5 * time.Second
	// maxWaitingRetries is how many the server keeps the times of. Those beyond wait
	// until some of them are through.
	maxWaitingRetries = 20_000
	// forwards at a time.
	maxForwards = 128
)

// addRetry stores the event for another attempt and returns after the stream has
// confirmed it. A repeat for the same delivery is stored once.
func (c *Conn) addRetry(ctx context.Context, m *Message, due time.Time) error {
	retry := &nats.Msg{
		Subject: subjectOf(retryPrefix, m.source.subscription),
		Header:  m.carriedHeader(),
		Data:    m.raw.Data,
	}
	attempt := strconv.Itoa(m.Attempt())
	retry.Header.Set(HeaderAttempts, attempt)
	retry.Header.Set(headerDue, strconv.FormatInt(due.UnixNano(), 10))
	retry.Header.Set(headerRedelivery, m.source.redelivery)
	retry.Header.Set(jetstream.MsgIDHeader, m.identity()+"/"+attempt)
	if _, err := c.js.PublishMsg(ctx, retry); err != nil {
		return fmt.Errorf("add retry: %w", mapError(err))
	}
	return nil
}

// carriedHeader are the headers of the event, wherever it is stored next.
func (m *Message) carriedHeader() nats.Header {
	header := nats.Header{}
	for name, values := range m.raw.Header {
		if !strings.HasPrefix(name, natsHeaders) {
			header[name] = values
		}
	}
	header.Set(HeaderSubject, m.Subject())
	header.Set(HeaderStored, m.Stored().UTC().Format(time.RFC3339Nano))
	return header
}

// identity tells deliveries of different events to different consumers apart. The
// time is part of it because a stream that is made anew counts anew.
func (m *Message) identity() string {
	return strings.Join([]string{
		m.metadata.Consumer, strconv.FormatUint(m.Sequence(), 10), strconv.FormatInt(m.metadata.Timestamp.UnixNano(), 10),
	}, "/")
}

// subjectOf is unambiguous although names may have dots: namespaces have none.
func subjectOf(prefix string, subscription types.NamespacedName) string {
	return strings.Join([]string{prefix, subscription.Namespace, subscription.Name}, ".")
}

// subscriptionOf reads a subject that subjectOf made.
func subscriptionOf(prefix, subject string) types.NamespacedName {
	namespace, name, _ := strings.Cut(strings.TrimPrefix(subject, prefix+"."), ".")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// ForwardRetries brings events back to their consumers when they are due, until ctx
// ends. Any number of processes may do so at the same time.
func (c *Conn) ForwardRetries(ctx context.Context, stream string) {
	f := newForwarder(c, stream)
	source := NewSource(c, RetryStream, retryConsumer, types.NamespacedName{}, maxForwards)
	for ctx.Err() == nil {
		err := source.Receive(ctx, nil, func(m *Message) { f.take(ctx, m) })
		if err != nil && !isAny(err, ErrNotConnected, ErrConsumerNotFound) {
			c.log.Info("cannot forward retries, trying again", "reason", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	f.running.Wait()
}

// forwarder moves due retries.
type forwarder struct {
	conn      *Conn
	consumers *presence
	places    chan struct{}
	running   sync.WaitGroup
}

// consumerDelay is how long a retry waits whose consumer is gone, or was made again while the retry went there.
const consumerDelay = 5 * time.Second

func newForwarder(c *Conn, stream string) *forwarder {
	find := func(ctx context.Context, consumer string) (time.Time, error) {
		return c.redeliveryConsumer(ctx, stream, consumer)
	}
	return &forwarder{conn: c, consumers: newPresence(find), places: make(chan struct{}, maxForwards)}
}

// take forwards what is due and lets the server keep the time of the rest.
func (f *forwarder) take(ctx context.Context, m *Message) {
	due, err := strconv.ParseInt(m.raw.Header.Get(headerDue), 10, 64)
	if wait := time.Until(time.Unix(0, due)); err == nil && wait > 0 {
		f.settled(m.Return(ctx, wait))
		return
	}
	f.places <- struct{}{}
	f.running.Go(func() {
		defer func() { <-f.places }()
		f.forward(context.WithoutCancel(ctx), m)
	})
}

func (f *forwarder) forward(ctx context.Context, m *Message) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	err := f.publish(ctx, m)
	switch {
	case err == nil:
		f.settled(m.Ack(ctx))
	case errors.Is(err, ErrConsumerNotFound):
		f.settled(m.Return(ctx, consumerDelay))
	default:
		f.conn.log.V(1).Info("cannot forward a retry yet", "reason", err.Error())
		f.settled(m.Return(ctx, time.Second))
	}
}

func (f *forwarder) publish(ctx context.Context, m *Message) error {
	subject := m.raw.Header.Get(headerRedelivery)
	header := m.carriedHeader()
	header.Del(headerDue)
	header.Del(headerRedelivery)
	header.Set(jetstream.MsgIDHeader, m.identity())
	message := &nats.Msg{Subject: subject, Header: header, Data: m.raw.Data}
	return f.consumers.publish(ctx, f.conn.js, subject[strings.LastIndexByte(subject, '.')+1:], message)
}

// settled needs no error: what is not settled comes again.
func (f *forwarder) settled(err error) {
	if err != nil {
		f.conn.log.V(1).Info("cannot settle a retry", "reason", err.Error())
	}
}

// WaitingRetries counts the events of each Subscription that wait for their next attempt.
func (c *Conn) WaitingRetries(ctx context.Context) (map[types.NamespacedName]uint64, error) {
	counts, err := c.countBySubscription(ctx, RetryStream, retryPrefix, retryPrefix+".>")
	if err != nil {
		return nil, fmt.Errorf("count waiting retries: %w", err)
	}
	return counts, nil
}

// PurgeRetries drops the events of a Subscription that wait for their next attempt.
func (c *Conn) PurgeRetries(ctx context.Context, subscription types.NamespacedName) error {
	if !c.Connected() {
		return fmt.Errorf("purge retries: %w", ErrNotConnected)
	}
	stream, err := c.js.Stream(ctx, RetryStream)
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(subjectOf(retryPrefix, subscription)))
	}
	if err = mapError(err); err != nil && !errors.Is(err, ErrNoStream) {
		return fmt.Errorf("purge retries: %w", err)
	}
	return nil
}

// countBySubscription counts what a stream holds under prefix.namespace.name, as far
// as the filter matches.
func (c *Conn) countBySubscription(ctx context.Context, stream, prefix, filter string) (map[types.NamespacedName]uint64, error) {
	if !c.Connected() {
		return nil, ErrNotConnected
	}
	handle, err := c.js.Stream(ctx, stream)
	if err != nil {
		return nil, mapError(err)
	}
	info, err := handle.Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return nil, mapError(err)
	}
	counts := make(map[types.NamespacedName]uint64, len(info.State.Subjects))
	for subject, count := range info.State.Subjects {
		counts[subscriptionOf(prefix, subject)] += count
	}
	return counts, nil
}
