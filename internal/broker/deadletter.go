package broker

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/failure"
	"github.com/rouse-run/rouse/internal/routing"
)

// Headers that a dead letter has besides those of its event and those of a retry.
const (
	HeaderDeadLetterSubscription = "Rouse-Subscription"
	HeaderDeadLetterReason       = "Rouse-Reason" // a code of package failure
	// HeaderDeadLetterMessage is the reason as a sentence. A dead letter without it was
	// stored when the sentence was the reason.
	HeaderDeadLetterMessage  = "Rouse-Message"
	HeaderDeadLetterStatus   = "Rouse-Status"
	HeaderDeadLetterExcerpt  = "Rouse-Excerpt"
	HeaderDeadLetterSequence = "Rouse-Sequence" // in the stream that it came from
	HeaderDeadLetterTime     = "Rouse-Time"     // when it was given up
	// HeaderDeadLetterSpliced is how many bytes of the body are extensions that
	// the event did not have.
	HeaderDeadLetterSpliced = "Rouse-Spliced"

	maxExcerpt = 1024
	// natsHeaders belong to the stream that an event came from.
	natsHeaders = "Nats-"
)

// DeadLetter records why an event is given up.
type DeadLetter struct {
	Subscription types.NamespacedName
	Reason       failure.Reason
	Attempts     int
	Status       int    // the sink's last HTTP status, 0 without an answer
	BodyExcerpt  string // the beginning of the sink's last answer
}

// AddDeadLetter keeps the message as a dead letter and returns after the stream
// has confirmed it. A repeat for the same message is stored once. The message
// itself still has to be rejected. When the stream is full, it drops the oldest
// dead letters of the namespace that holds most of it.
func (c *Conn) AddDeadLetter(ctx context.Context, d DeadLetter, m *Message) error {
	if !c.Connected() {
		return fmt.Errorf("add dead letter: %w", ErrNotConnected)
	}
	deadLetter := d.message(m, time.Now())
	if int64(deadLetter.Size()) > c.nc.MaxPayload() {
		// The headers hold the same, and fit: see deadLetterReserve.
		deadLetter.Data = m.raw.Data
		deadLetter.Header.Del(HeaderDeadLetterSpliced)
	}
	if err := c.storeDeadLetter(ctx, deadLetter); err != nil {
		return fmt.Errorf("add dead letter: %w", err)
	}
	return nil
}

// AddDeadLetter is Conn.AddDeadLetter for the Subscription that the message was delivered for.
func (m *Message) AddDeadLetter(ctx context.Context, d DeadLetter) error {
	d.Subscription = m.source.subscription
	return m.conn.AddDeadLetter(ctx, d, m)
}

func (d DeadLetter) message(m *Message, now time.Time) *nats.Msg {
	d.Reason = failure.Reason(singleLine(string(d.Reason), maxReason))
	d.BodyExcerpt = singleLine(d.BodyExcerpt, maxExcerpt)
	deadLetter := &nats.Msg{Subject: routing.DeadLetterSubject(d.Subscription), Header: d.header(m, now), Data: m.raw.Data}
	if spliced := spliceExtensions(m.raw.Data, d.extensions(now)); spliced != nil {
		deadLetter.Data = spliced
		deadLetter.Header.Set(HeaderDeadLetterSpliced, strconv.Itoa(len(spliced)-len(m.raw.Data)))
	}
	return deadLetter
}

func (d DeadLetter) header(m *Message, now time.Time) nats.Header {
	header := m.carriedHeader()
	header.Del(headerUID) // a redrive goes to the Subscription that has the name then
	header.Set(HeaderDeadLetterSubscription, d.Subscription.String())
	header.Set(HeaderDeadLetterReason, string(d.Reason))
	header.Set(HeaderDeadLetterMessage, d.Reason.Message())
	header.Set(HeaderAttempts, strconv.Itoa(d.Attempts))
	header.Set(HeaderDeadLetterStatus, strconv.Itoa(d.Status))
	header.Set(HeaderDeadLetterExcerpt, d.BodyExcerpt)
	header.Set(HeaderDeadLetterSequence, strconv.FormatUint(m.Sequence(), 10))
	header.Set(HeaderDeadLetterTime, formatTime(now))
	header.Set(jetstream.MsgIDHeader, m.identity())
	return header
}

// DeadLetters counts what is kept for a Subscription.
func (c *Conn) DeadLetters(ctx context.Context, subscription types.NamespacedName) (uint64, error) {
	counts, err := c.countDeadLetters(ctx, routing.DeadLetterSubject(subscription))
	if err != nil {
		return 0, fmt.Errorf("count dead letters: %w", err)
	}
	return counts[subscription], nil
}

// DeadLetterCounts counts what is kept for each Subscription that has dead
// letters, in one request.
func (c *Conn) DeadLetterCounts(ctx context.Context) (map[types.NamespacedName]uint64, error) {
	counts, err := c.countDeadLetters(ctx, DeadLetterSelection{}.filter())
	if err != nil {
		return nil, fmt.Errorf("count dead letters: %w", err)
	}
	return counts, nil
}

func (c *Conn) countDeadLetters(ctx context.Context, filter string) (map[types.NamespacedName]uint64, error) {
	return c.countBySubscription(ctx, DeadLetterStream, routing.DeadLetterPrefix, filter)
}

// deadLetterSubscription reads a subject that routing.DeadLetterSubject made.
func deadLetterSubscription(subject string) types.NamespacedName {
	return subscriptionOf(routing.DeadLetterPrefix, subject)
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
