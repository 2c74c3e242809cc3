package broker

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/types"
)

// Headers that a dead letter has besides those of its event. The body is the
// event as it was stored.
const (
	HeaderDeadLetterSubscription = "Rouse-Subscription"
	HeaderDeadLetterReason       = "Rouse-Reason"
	HeaderDeadLetterAttempts     = "Rouse-Attempts"
	HeaderDeadLetterStatus       = "Rouse-Status"
	HeaderDeadLetterExcerpt      = "Rouse-Excerpt"
	HeaderDeadLetterSubject      = "Rouse-Subject"
	HeaderDeadLetterSequence     = "Rouse-Sequence"

	maxExcerpt = 1024
	// natsHeaders belong to the stream that an event came from.
	natsHeaders = "Nats-"
)

// DeadLetter says why an event is given up.
type DeadLetter struct {
	Subscription types.NamespacedName
	Reason       string
	Attempts     int
	Status       int    // the sink's last HTTP status, 0 without an answer
	BodyExcerpt  string // the beginning of the sink's last answer
}

// AddDeadLetter keeps the message as a dead letter and returns after the stream
// has confirmed it. A repeat for the same message is stored once. The message
// itself still has to be rejected.
func (c *Conn) AddDeadLetter(ctx context.Context, d DeadLetter, m *Message) error {
	if !c.Connected() {
		return fmt.Errorf("add dead letter: %w", ErrNotConnected)
	}
	letter := &nats.Msg{
		Subject: deadLetterSubject(d.Subscription),
		Header:  d.header(m),
		Data:    m.raw.Data,
	}
	if _, err := c.js.PublishMsg(ctx, letter); err != nil {
		return fmt.Errorf("add dead letter: %w", mapError(err))
	}
	return nil
}

func (d DeadLetter) header(m *Message) nats.Header {
	header := nats.Header{}
	for name, values := range m.raw.Header {
		if !strings.HasPrefix(name, natsHeaders) {
			header[name] = values
		}
	}
	sequence := strconv.FormatUint(m.Sequence(), 10)
	header.Set(HeaderDeadLetterSubscription, d.Subscription.String())
	header.Set(HeaderDeadLetterReason, singleLine(d.Reason, maxReason))
	header.Set(HeaderDeadLetterAttempts, strconv.Itoa(d.Attempts))
	header.Set(HeaderDeadLetterStatus, strconv.Itoa(d.Status))
	header.Set(HeaderDeadLetterExcerpt, singleLine(d.BodyExcerpt, maxExcerpt))
	header.Set(HeaderDeadLetterSubject, m.raw.Subject)
	header.Set(HeaderDeadLetterSequence, sequence)
	// The time is part of the id because a stream that is made anew counts anew.
	header.Set(jetstream.MsgIDHeader, strings.Join([]string{
		m.metadata.Consumer, sequence, strconv.FormatInt(m.metadata.Timestamp.UnixNano(), 10),
	}, "/"))
	return header
}

// DeadLetters counts what is kept for a Subscription.
func (c *Conn) DeadLetters(ctx context.Context, subscription types.NamespacedName) (uint64, error) {
	if !c.Connected() {
		return 0, fmt.Errorf("count dead letters: %w", ErrNotConnected)
	}
	stream, err := c.js.Stream(ctx, DeadLetterStream)
	if err != nil {
		return 0, fmt.Errorf("count dead letters: %w", mapError(err))
	}
	subject := deadLetterSubject(subscription)
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return 0, fmt.Errorf("count dead letters: %w", mapError(err))
	}
	return info.State.Subjects[subject], nil
}

// deadLetterSubject is unambiguous although names may have dots: namespaces have
// none.
func deadLetterSubject(subscription types.NamespacedName) string {
	return strings.Join([]string{deadLetterPrefix, subscription.Namespace, subscription.Name}, ".")
}
