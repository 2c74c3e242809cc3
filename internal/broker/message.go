package broker

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go"
)

// What a client says about a delivered message.
const (
	verbAck      = "+ACK"
	verbNak      = "-NAK"
	verbTerm     = "+TERM"
	verbProgress = "+WPI"

	maxReason = 200
)

// Message is one delivery of a stored event. It is settled once, by Ack, Retry
// or Reject; an unsettled one is delivered again after the consumer's AckWait.
type Message struct {
	conn     *Conn
	raw      *nats.Msg
	metadata *nats.MsgMetadata
	settled  atomic.Bool
}

func newMessage(conn *Conn, raw *nats.Msg) (*Message, error) {
	metadata, err := raw.Metadata()
	if err != nil {
		return nil, err
	}
	return &Message{conn: conn, raw: raw, metadata: metadata}, nil
}

// Event decodes the message, with the type that its publisher gave the event.
// The error is ErrUndecodable. Each call decodes anew.
func (m *Message) Event() (event.Event, error) { return decode(m.raw.Header, m.raw.Data) }

// Size of the stored event in bytes.
func (m *Message) Size() int { return len(m.raw.Data) }

// Attempt counts deliveries, from 1.
func (m *Message) Attempt() int { return int(m.metadata.NumDelivered) }

// Sequence is the event's position in the stream.
func (m *Message) Sequence() uint64 { return m.metadata.Sequence.Stream }

// Subject the event is stored under.
func (m *Message) Subject() string { return m.raw.Subject }

// Stored is when the stream took the event.
func (m *Message) Stored() time.Time { return m.metadata.Timestamp }

// Pending is how many more events the consumer had waiting at the delivery.
func (m *Message) Pending() uint64 { return m.metadata.NumPending }

// Ack says that the event was processed. It does not wait for the server: if the
// word is lost the event comes again.
func (m *Message) Ack(ctx context.Context) error {
	return m.settle(func() error { return m.conn.send(ctx, m.raw.Reply, []byte(verbAck)) })
}

// Retry asks for another delivery after the delay.
func (m *Message) Retry(ctx context.Context, delay time.Duration) error {
	body := []byte(verbNak)
	if delay > 0 {
		body = append(body, ` {"delay":`...)
		body = strconv.AppendInt(body, delay.Nanoseconds(), 10)
		body = append(body, '}')
	}
	return m.settle(func() error { return m.conn.send(ctx, m.raw.Reply, body) })
}

// Reject ends the deliveries for good and returns when the server has confirmed
// it. Store a dead letter first.
func (m *Message) Reject(ctx context.Context, reason string) error {
	body := []byte(verbTerm + " " + singleLine(reason, maxReason))
	return m.settle(func() error { return m.conn.request(ctx, m.raw.Reply, body) })
}

// Extend says that the event is being worked on, which starts its AckWait anew.
func (m *Message) Extend(ctx context.Context) error {
	if m.settled.Load() {
		return nil
	}
	return m.conn.send(ctx, m.raw.Reply, []byte(verbProgress))
}

// handBack returns a message that nobody waits for any more, so that it need not
// wait for AckWait. Without a connection AckWait has to do.
func (m *Message) handBack() { _ = m.conn.nc.Publish(m.raw.Reply, []byte(verbNak)) }

func (m *Message) settle(tell func() error) error {
	if !m.settled.CompareAndSwap(false, true) {
		return ErrSettled
	}
	err := tell()
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
