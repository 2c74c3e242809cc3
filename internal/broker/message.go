package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/types"

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
// acknowledgement is lost the event comes again. That of a source that holds messages ahead goes out
// with others, at most half a millisecond later: no delivery waits for it.
func (m *Message) Ack(ctx context.Context) error {
	return m.settle(func() error {
		if m.source.hold != nil && m.call.Load() == nil && m.conn.Connected() {
			m.conn.acks.add(m.raw.Reply)
			return nil
		}
		return m.end(ctx)
	})
}

// Retry schedules another attempt after the delay, which counts. The event waits in
// the stream of retries, where it does not hold up others, by the server's clock and for
// MaxRetryDelay at most. When that is full, or takes no more of its namespace, the event
// waits in its consumer.
func (m *Message) Retry(ctx context.Context, delay time.Duration) error {
	return m.settle(func() error { return m.repeat(ctx, delay, m.Attempt()) })
}

// Return requests another delivery after the delay, because this one had no result
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
		m.conn.log.Error(err, "cannot store a retry: the event waits in its consumer", "consumer", m.metadata.Consumer)
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

// Acks are sent when so many are collected, or after so long: each one alone would cost a write, and the server a read.
const (
	ackBatch = 32
	ackDelay = 500 * time.Microsecond
)

// acks collects the acks of all messages of a connection.
type acks struct {
	send func(replies []string) // must not keep them

	sending sync.Mutex // taken before mu
	spare   []string   // guarded by sending

	mu      sync.Mutex
	replies []string    // the subjects to publish to
	timer   *time.Timer // sends the rest
	armed   bool
}

func (a *acks) add(reply string) {
	if a.collect(reply) {
		a.flush()
	}
}

// collect reports whether there are enough for a batch.
func (a *acks) collect(reply string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.replies = append(a.replies, reply)
	switch {
	case a.armed:
	case a.timer == nil:
		a.armed, a.timer = true, time.AfterFunc(ackDelay, a.flush)
	default:
		a.armed = true
		a.timer.Reset(ackDelay)
	}
	return len(a.replies) >= ackBatch
}

// flush returns when all that was collected is sent.
func (a *acks) flush() {
	a.sending.Lock()
	defer a.sending.Unlock()
	a.mu.Lock()
	due := a.replies
	a.replies, a.armed = a.spare[:0], false
	a.mu.Unlock()
	a.send(due)
	clear(due)
	a.spare = due
}

// sendAcks publishes acks. Those that meet a broken connection wait for the next, as send does, and nobody waits for them.
func (c *Conn) sendAcks(replies []string) {
	for i, reply := range replies {
		err := mapError(c.nc.Publish(reply, []byte(verbAck)))
		switch {
		case err == nil:
		case errors.Is(err, ErrNotConnected):
			late := slices.Clone(replies[i:])
			c.inBackground(func() { c.sendLate(late) })
			return
		default:
			c.log.Error(err, "cannot acknowledge an event, it will be delivered again")
		}
	}
}

func (c *Conn) sendLate(replies []string) {
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	for i, reply := range replies {
		if err := c.send(ctx, reply, []byte(verbAck)); err != nil {
			c.log.Error(err, "cannot acknowledge events, they will be delivered again", "count", len(replies)-i)
			return
		}
	}
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

// deletePause is between attempts to delete a copy while the stream does not answer.
const deletePause = 250 * time.Millisecond

// callCopy is the copy of an event whose call is detached.
type callCopy struct {
	sequence uint64
	stream   time.Time // when that was made: a recreated stream counts from 1 again
}

// Detach takes the message out of its consumer, so that it counts for no limit there while its call goes on: a copy of the
// event is stored with the retries, and then the message is acked. It needs no Extend any more and is settled as before. If
// that does not happen within the time that is given, or up to twice as long, the event is delivered again, as the same attempt.
//
// After an error the message is as it was. No other call on it may run at the same time, except Extend.
func (m *Message) Detach(ctx context.Context, within time.Duration) error {
	if m.settled.Load() || m.call.Load() != nil {
		return ErrSettled
	}
	call, err := m.conn.addCopy(ctx, m, within)
	if err != nil {
		return fmt.Errorf("detach: %w", err)
	}
	m.call.Store(call)
	m.source.hold.free(m)
	if err := m.conn.request(ctx, m.raw.Reply, []byte(verbAck)); err != nil { // the event is delivered twice
		m.conn.log.V(1).Info("cannot ack the message of a detached call", "reason", err.Error())
	}
	return nil
}

// addCopy stores the copy in one level, because each move to another would change its sequence.
func (c *Conn) addCopy(ctx context.Context, m *Message, within time.Duration) (*callCopy, error) {
	if !c.Connected() {
		return nil, ErrNotConnected
	}
	// A repeat for the same delivery is stored once, and each delivery has a copy of its own.
	w := m.waitingCopy("call/" + strconv.FormatUint(m.metadata.NumDelivered, 10))
	level := levelAbove(within)
	if _, err := c.retries.admit(ctx, m.source.subscription, w.size, level.wait()); err != nil {
		return nil, err
	}
	stream, err := c.js.Stream(ctx, RetryStream)
	if err != nil {
		return nil, mapError(err)
	}
	stored, err := c.storeWaiting(ctx, w, callSubject(level, w.size, m.source.subscription), level.wait())
	if err != nil {
		return nil, err
	}
	return &callCopy{sequence: stored.Sequence, stream: stream.CachedInfo().Created}, nil
}

// deleteCopy waits for a connection, as acks do. A copy that is gone has come back, or went with its stream or Subscription.
func (c *Conn) deleteCopy(ctx context.Context, call *callCopy) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		err := c.tryDeleteCopy(ctx, call)
		if !isAny(err, ErrNotConnected, ErrNoStream, ErrTimeout) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("delete the copy of a detached call: %w", err)
		case <-time.After(deletePause):
		}
	}
}

func (c *Conn) tryDeleteCopy(ctx context.Context, call *callCopy) error {
	if !c.Connected() {
		return ErrNotConnected
	}
	stream, err := c.js.Stream(ctx, RetryStream)
	if err != nil {
		return mapError(err)
	}
	if !stream.CachedInfo().Created.Equal(call.stream) {
		return nil
	}
	err = stream.DeleteMsg(ctx, call.sequence)
	if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) {
		c.log.V(1).Info("the copy of a detached call is gone", "reason", err.Error())
		return nil
	}
	return mapError(err)
}

// DetachedCalls counts the calls of each Subscription that run outside its consumer's MaxAckPending.
func (c *Conn) DetachedCalls(ctx context.Context) (map[types.NamespacedName]uint64, error) {
	info, err := c.subjects(ctx, RetryStream, callPrefix+".>")
	if err != nil {
		return nil, fmt.Errorf("count detached calls: %w", err)
	}
	counts := make(map[types.NamespacedName]uint64, len(info.State.Subjects))
	for subject, count := range info.State.Subjects {
		_, subscription := waitingOf(subject)
		counts[subscription] += count
	}
	return counts, nil
}

// DetachedCallsOf is DetachedCalls for one Subscription, in one request. Without the stream there are none.
func (c *Conn) DetachedCallsOf(ctx context.Context, subscription types.NamespacedName) (uint64, error) {
	filter := subjectOf(strings.Join([]string{callPrefix, "*", "*"}, "."), subscription)
	var info jetstream.StreamInfo
	err := c.callAPI(ctx, "$JS.API.STREAM.INFO."+RetryStream, []byte(`{"subjects_filter":"`+filter+`"}`), &info)
	if err = mapError(err); err != nil {
		if _, answered := errors.AsType[*APIError](err); answered && errors.Is(err, ErrNoStream) {
			return 0, nil
		}
		return 0, fmt.Errorf("count detached calls of %s: %w", subscription, err)
	}
	var count uint64
	for _, n := range info.State.Subjects {
		count += n
	}
	return count, nil
}
