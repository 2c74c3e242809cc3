package broker

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
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

	// HeaderRedriven is when the event was redriven last; an event that never was has none.
	HeaderRedriven = "Rouse-Redriven"

	headerDelay      = "Rouse-Delay"            // nanoseconds after the retry was stored
	headerDue        = "Rouse-Due"              // nanoseconds since 1970 by the server's clock, once that is known
	headerRedelivery = "Rouse-Redelivery"       // where the event goes then
	headerUID        = "Rouse-Subscription-UID" // whose retry it is, beyond the name
	headerRetry      = "Rouse-Retry"            // the identity of the retry in the level that it waited in first
)

const (
	delayPrefix   = "rouse.delay"
	callPrefix    = "rouse.call"
	retryConsumer = "rouse-retries"
	// retryWindow is how long a repeated retry is recognised. The server keeps the id of each one in memory as long.
	retryWindow = 2 * time.Minute
	// retryAckWait is how late a retry is whose bridge was killed while it brought it
	// back, which takes milliseconds. Where it takes longer a second bridge does the same,
	// and the stream of events, which knows the retry by its id, stores it once.
	retryAckWait = 5 * time.Second
	// maxRetriesAhead is how many retries of a level all bridges have in view: the next ones that go on. Up to here the
	// server scans all of them whenever one is acked, without delaying the others.
	maxRetriesAhead = 1024
)

// ensureRetryConsumers makes one consumer for each level.
func (c *Conn) ensureRetryConsumers(ctx context.Context) error {
	for level := range lastRetryLevel + 1 {
		err := c.EnsureConsumer(ctx, RetryStream, Consumer{
			Name:          level.consumer(),
			Description:   "brings retries on that have waited for " + level.String(),
			Subjects:      level.filters(),
			StartFrom:     StartFrom{Policy: StartAll},
			AckWait:       retryAckWait,
			MaxAckPending: maxRetriesAhead,
		})
		if err != nil {
			return err
		}
	}
	return c.ensureOldRetryConsumer(ctx)
}

// addRetry stores the event for another attempt after so many, and returns after the stream has
// confirmed it. A repeat for the same delivery is stored once. ErrRetryShare means that too
// many retries of its namespace or Subscription wait already; that of a detached call replaces its copy.
func (c *Conn) addRetry(ctx context.Context, m *Message, delay time.Duration, attempts int) error {
	delay = min(max(delay, 0), MaxRetryDelay)
	w := m.waitingCopy(strconv.Itoa(attempts))
	spread, err := c.retries.admit(ctx, m.source.subscription, w.size, delay)
	switch {
	case err == nil:
		delay = spread
	case m.call.Load() == nil:
		return fmt.Errorf("add retry: %w", err)
	}
	w.Header.Set(HeaderAttempts, strconv.Itoa(attempts))
	if _, err := c.storeWaiting(ctx, w, retrySubject(levelOf(delay), w.size, m.source.subscription), delay); err != nil {
		return fmt.Errorf("add retry: %w", err)
	}
	return nil
}

// waitingCopy is a copy of an event that is to come back to its consumer.
type waitingCopy struct {
	nats.Msg

	size string // its class
}

// waitingCopy distinguishes the copy from others of the same delivery by the name.
func (m *Message) waitingCopy(name string) *waitingCopy {
	header := m.carriedHeader()
	size := sizeClass(storedSize(header, m.raw.Data))
	header.Set(headerRedelivery, m.source.redelivery)
	if m.source.uid != "" {
		header.Set(headerUID, string(m.source.uid))
	}
	header.Set(jetstream.MsgIDHeader, m.identity()+"/"+name)
	return &waitingCopy{Msg: nats.Msg{Header: header, Data: m.raw.Data}, size: size}
}

func (c *Conn) storeWaiting(ctx context.Context, w *waitingCopy, subject string, delay time.Duration) (*jetstream.PubAck, error) {
	w.Subject = subject
	w.Header.Set(headerDelay, strconv.FormatInt(delay.Nanoseconds(), 10))
	stored, err := c.js.PublishMsg(ctx, &w.Msg)
	return stored, mapError(err)
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

// identity distinguishes deliveries of different events to different consumers. The
// time is part of it because a recreated stream counts from 1 again.
func (m *Message) identity() string {
	return strings.Join([]string{
		m.metadata.Consumer, strconv.FormatUint(m.Sequence(), 10), strconv.FormatInt(m.metadata.Timestamp.UnixNano(), 10),
	}, "/")
}

// retryIdentity is the same at all levels that a retry waits at. A bridge that has a retry in hand for longer than
// retryAckWait may move it on while another one, which got it too, brings it back.
func (m *Message) retryIdentity() string {
	if first := m.raw.Header.Get(headerRetry); first != "" {
		return first
	}
	return m.identity()
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

// WaitingRetries counts the events of each Subscription that wait for their next attempt.
func (c *Conn) WaitingRetries(ctx context.Context) (map[types.NamespacedName]uint64, error) {
	info, err := c.subjects(ctx, RetryStream, "rouse.>")
	if err != nil {
		return nil, fmt.Errorf("count waiting retries: %w", err)
	}
	counts := make(map[types.NamespacedName]uint64, len(info.State.Subjects))
	for subject, count := range info.State.Subjects {
		if !isDetached(subject) {
			_, subscription := waitingOf(subject)
			counts[subscription] += count
		}
	}
	return counts, nil
}

// PurgeRetries drops the events of a Subscription that wait for their next attempt, and those of detached calls.
func (c *Conn) PurgeRetries(ctx context.Context, subscription types.NamespacedName) error {
	if !c.Connected() {
		return fmt.Errorf("purge retries: %w", ErrNotConnected)
	}
	stream, err := c.js.Stream(ctx, RetryStream)
	for _, prefix := range []string{delayPrefix + ".*.*", callPrefix + ".*.*", oldRetryPrefix} {
		if err == nil {
			err = stream.Purge(ctx, jetstream.WithPurgeSubject(subjectOf(prefix, subscription)))
		}
	}
	if err = mapError(err); err != nil && !errors.Is(err, ErrNoStream) {
		return fmt.Errorf("purge retries: %w", err)
	}
	return nil
}

// countBySubscription counts what a stream holds under prefix.namespace.name, as far
// as the filter matches.
func (c *Conn) countBySubscription(ctx context.Context, stream, prefix, filter string) (map[types.NamespacedName]uint64, error) {
	info, err := c.subjects(ctx, stream, filter)
	if err != nil {
		return nil, err
	}
	counts := make(map[types.NamespacedName]uint64, len(info.State.Subjects))
	for subject, count := range info.State.Subjects {
		counts[subscriptionOf(prefix, subject)] += count
	}
	return counts, nil
}

// subjects asks what a stream holds under the subjects that the filter matches.
func (c *Conn) subjects(ctx context.Context, stream, filter string) (*jetstream.StreamInfo, error) {
	if !c.Connected() {
		return nil, ErrNotConnected
	}
	handle, err := c.js.Stream(ctx, stream)
	if err != nil {
		return nil, mapError(err)
	}
	info, err := handle.Info(ctx, jetstream.WithSubjectFilter(filter))
	return info, mapError(err)
}

// retryLevel is one of the queues that retries wait in. All retries of a level wait equally long there, by the times at
// which the server stored them, so the first is always the next to go on and those behind it need no check. Level
// 0 does not wait, level 1 a retryUnit, and each further one twice as long as the one before. A delay is the sum of
// some of them.
type retryLevel int

const (
	// retryUnit is what a retry waits for in the hands of a bridge, at most: no level is shorter.
	retryUnit = 125 * time.Millisecond
	// lastRetryLevel has 18 hours. What is left of a delay at a level is less than twice its wait.
	lastRetryLevel retryLevel = 20
	// MaxRetryDelay is the longest delay of a retry.
	MaxRetryDelay = 24 * time.Hour
)

// levelOf is the level in which most of the delay is waited for.
func levelOf(delay time.Duration) retryLevel {
	if delay < retryUnit {
		return 0
	}
	return min(retryLevel(bits.Len64(uint64(delay/retryUnit))), lastRetryLevel)
}

func (l retryLevel) wait() time.Duration {
	if l == 0 {
		return 0
	}
	return retryUnit << (l - 1)
}

// levelAbove is the first level in which all of the delay is waited for.
func levelAbove(delay time.Duration) retryLevel {
	level := levelOf(delay)
	if level.wait() < delay {
		level++
	}
	return min(level, lastRetryLevel)
}

// longest is what is left of a delay at this level at most.
func (l retryLevel) longest() time.Duration { return retryUnit << l }

// String is the level's part of subjects and of its consumer's name.
func (l retryLevel) String() string { return l.wait().String() }

func (l retryLevel) consumer() string { return retryConsumer + "-" + l.String() }

// filters are of the retries that wait in the level and of the events of detached calls.
func (l retryLevel) filters() []string {
	return []string{delayPrefix + "." + l.String() + ".>", callPrefix + "." + l.String() + ".>"}
}

// schedule returns when a retry of this level is due, and when to check it next: then it is due, or waits for the rest of its
// delay at another level. All are times of the server. Whatever the headers hold, a retry of a level is due when
// its wait is over, or within as long again.
func (l retryLevel) schedule(stored time.Time, header nats.Header) (due, next time.Time) {
	over := stored.Add(l.wait())
	due = firstDue(stored, header)
	if due.Before(over) {
		due = over
	}
	if latest := stored.Add(l.longest()); due.After(latest) {
		due = latest
	}
	if due.Sub(over) < retryUnit {
		return due, due
	}
	return due, over
}

// firstDue is when the retry was to come back when it was made.
func firstDue(stored time.Time, header nats.Header) time.Time {
	if due, err := strconv.ParseInt(header.Get(headerDue), 10, 64); err == nil {
		return time.Unix(0, due)
	}
	delay, _ := strconv.ParseInt(header.Get(headerDelay), 10, 64)
	return stored.Add(time.Duration(delay))
}

// retrySubject is where a retry waits: rouse.delay.<level>.<size>.<namespace>.<name>.
func retrySubject(level retryLevel, size string, subscription types.NamespacedName) string {
	return waitingSubject(delayPrefix, level, size, subscription)
}

// callSubject is where the event of a detached call waits: rouse.call.<level>.<size>.<namespace>.<name>.
func callSubject(level retryLevel, size string, subscription types.NamespacedName) string {
	return waitingSubject(callPrefix, level, size, subscription)
}

func waitingSubject(prefix string, level retryLevel, size string, subscription types.NamespacedName) string {
	return subjectOf(strings.Join([]string{prefix, level.String(), size}, "."), subscription)
}

func isDetached(subject string) bool { return strings.HasPrefix(subject, callPrefix+".") }

// waitingOf reads a subject of any form.
func waitingOf(subject string) (size string, subscription types.NamespacedName) {
	rest, ok := strings.CutPrefix(subject, delayPrefix+".")
	if !ok {
		rest, ok = strings.CutPrefix(subject, callPrefix+".")
	}
	if !ok {
		return "", subscriptionOf(oldRetryPrefix, subject)
	}
	_, rest, _ = strings.Cut(rest, ".")
	size, rest, _ = strings.Cut(rest, ".")
	namespace, name, _ := strings.Cut(rest, ".")
	return size, types.NamespacedName{Namespace: namespace, Name: name}
}

const kibibyte = 1 << 10

// sizeClass is the size in KiB, rounded up to a power of two, as it stands in the subject: so a count of the
// retries of a Subscription also gives their bytes, within a factor of two.
func sizeClass(bytes int) string {
	return strconv.Itoa(1 << bits.Len64(uint64(max(bytes-1, 0)/kibibyte)))
}

func classBytes(size string) uint64 {
	kibibytes, err := strconv.ParseUint(size, 10, 32)
	if err != nil {
		return kibibyte
	}
	return kibibytes * kibibyte
}

// storedSize is about what the stream keeps for a message.
func storedSize(header nats.Header, data []byte) int {
	size := len(data)
	for name, values := range header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	return size
}
