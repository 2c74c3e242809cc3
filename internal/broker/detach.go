package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/apimachinery/pkg/types"
)

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
