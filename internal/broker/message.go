package broker

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

// Acknowledgements of a delivered message.
const (
	verbAck      = "+ACK"
	verbNak      = "-NAK"
	verbTerm     = "+TERM"
	verbProgress = "+WPI"

	maxReason = 200
)

// Message is one delivery of a stored event. It is settled once, by Ack, Retry,
// Return or Reject; an unsettled one is delivered again after the consumer's AckWait.
type Message struct {
	conn     *Conn
	source   *Source
	raw      *nats.Msg
	metadata *nats.MsgMetadata
	settled  atomic.Bool
	call     atomic.Pointer[callCopy] // once it is detached
	memory   int64                    // of its source's budget that it takes
	counted  atomic.Bool              // as held by its source
}

// Release releases the memory that the message takes, whatever became of it. The receiver
// of the message calls this once, and does not use the message any more.
func (m *Message) Release() {
	m.source.budget.Release(m.memory)
	m.source.hold.free(m)
}

// Event decodes the message, with the type that its publisher gave the event.
// The error is ErrUndecodable. Each call decodes it again.
func (m *Message) Event() (cloudevent.Event, error) { return decode(m.raw.Header, m.raw.Data) }

// Size of the stored event in bytes.
func (m *Message) Size() int { return len(m.raw.Data) }

// Attempt is 1 for an event that was not given to Retry before. Deliveries that were
// returned, or whose bridge died, do not count.
func (m *Message) Attempt() int {
	before, _ := strconv.Atoi(m.raw.Header.Get(HeaderAttempts))
	return before + 1
}

// Sequence is the message's position in the stream.
func (m *Message) Sequence() uint64 { return m.metadata.Sequence.Stream }

// Subject the event was published under.
func (m *Message) Subject() string {
	if subject := m.raw.Header.Get(HeaderSubject); subject != "" {
		return subject
	}
	return m.raw.Subject
}

// Stored is when the stream took the event first.
func (m *Message) Stored() time.Time {
	if stored, err := time.Parse(time.RFC3339Nano, m.raw.Header.Get(HeaderStored)); err == nil {
		return stored
	}
	return m.metadata.Timestamp
}

// Waiting is since when the event waits for its Subscription: since it was stored first, or redriven last.
func (m *Message) Waiting() time.Time {
	if redriven, err := time.Parse(time.RFC3339Nano, m.raw.Header.Get(HeaderRedriven)); err == nil {
		return redriven
	}
	return m.Stored()
}

// Pending is how many more events the consumer had waiting at the delivery.
func (m *Message) Pending() uint64 { return m.metadata.NumPending }

// Ack acknowledges that the event was processed. It does not wait for the server: if the
// acknowledgement is lost the event comes again.
func (m *Message) Ack(ctx context.Context) error {
	return m.settle(func() error { return m.end(ctx) })
}

// Retry asks for another attempt after the delay, which counts. The event waits in
// the stream of retries, where it does not hold up others, by the server's clock and for
// MaxRetryDelay at most. When that is full, or takes no more of its namespace, the event
// waits in its consumer.
func (m *Message) Retry(ctx context.Context, delay time.Duration) error {
	return m.settle(func() error { return m.repeat(ctx, delay, m.Attempt()) })
}

// Return asks for another delivery after the delay, because this one had no result
// for the event. It is no attempt.
func (m *Message) Return(ctx context.Context, delay time.Duration) error {
	return m.settle(func() error {
		if m.call.Load() != nil {
			return m.repeat(ctx, delay, m.Attempt()-1)
		}
		return m.conn.send(ctx, m.raw.Reply, nak(delay))
	})
}

// repeat stores the event for another delivery after so many attempts. The copy of a detached one that
// cannot be stored stays, and comes back in its time.
func (m *Message) repeat(ctx context.Context, delay time.Duration, attempts int) error {
	err := m.conn.addRetry(ctx, m, delay, attempts)
	switch {
	case err == nil:
		return m.end(ctx)
	case !errors.Is(err, ErrRetryShare): // logged for the namespace
		m.conn.log.Error(err, "a retry waits in its consumer", "consumer", m.metadata.Consumer)
	}
	if m.call.Load() != nil {
		return nil
	}
	return m.conn.send(ctx, m.raw.Reply, nak(delay))
}

// end has the server forget what it keeps for the delivery.
func (m *Message) end(ctx context.Context) error {
	if call := m.call.Load(); call != nil {
		return m.conn.deleteCopy(ctx, call)
	}
	return m.conn.send(ctx, m.raw.Reply, []byte(verbAck))
}

func nak(delay time.Duration) []byte {
	body := []byte(verbNak)
	if delay > 0 {
		body = append(body, ` {"delay":`...)
		body = strconv.AppendInt(body, delay.Nanoseconds(), 10)
		body = append(body, '}')
	}
	return body
}

// Reject ends the deliveries for good and returns when the server has confirmed
// it. Store a dead letter first.
func (m *Message) Reject(ctx context.Context, reason string) error {
	return m.settle(func() error {
		if m.call.Load() != nil {
			return m.end(ctx)
		}
		return m.conn.request(ctx, m.raw.Reply, []byte(verbTerm+" "+singleLine(reason, maxReason)))
	})
}

// Extend reports that the event is being worked on, which restarts its AckWait.
func (m *Message) Extend(ctx context.Context) error {
	if m.settled.Load() || m.call.Load() != nil {
		return nil
	}
	return m.conn.send(ctx, m.raw.Reply, []byte(verbProgress))
}

func (m *Message) settle(send func() error) error {
	if !m.settled.CompareAndSwap(false, true) {
		return ErrSettled
	}
	err := send()
	if err != nil {
		m.settled.Store(false)
	}
	return err
}

// request is send, and waits for the server's confirmation.
func (c *Conn) request(ctx context.Context, subject string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		_, err := c.nc.RequestWithContext(ctx, subject, data)
		err = mapError(err)
		if !errors.Is(err, ErrNotConnected) {
			return err
		}
		if err := c.waitConnected(ctx); err != nil {
			return err
		}
	}
}

// singleLine makes text fit for a header or a protocol line.
func singleLine(text string, limit int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "")
	}
	return text
}
