package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// orderedGroup is the priority group of ordered consumers.
	orderedGroup = "ordered"
	// headerPin names the client that the server has pinned an ordered consumer to.
	headerPin = "Nats-Pin-Id"
	// statusWrongPin is the answer to a request with a pin that is no longer the consumer's.
	statusWrongPin = "423"
	// Intervals at which a new owner polls what others still hold.
	firstPollInterval = 10 * time.Millisecond
	maxPollInterval   = time.Second
	// inspectTimeout bounds inspecting a consumer, and giving up the pin.
	inspectTimeout = 2 * time.Second
	// pinParts is the number of requests that are made, at least, in the time that a pin lasts.
	pinParts = 3
)

// errOwnershipLost means that the server has pinned the consumer to another source.
var errOwnershipLost = errors.New("another source owns the consumer now")

// ownership of an ordered consumer lets its source alone receive from it. It begins
// when the server pins the source by sending it a message. The source keeps what it gets
// until it has everything that is outstanding, so that earlier owners hold nothing
// any more, and hands it over in the order of the stream.
type ownership struct {
	source     *Source
	ackWait    time.Duration
	ready      bool
	kept       map[uint64]*Message // by sequence, until the source is ready
	extendedAt time.Time           // when the kept ones were extended
	pause      time.Duration
	pollTimer  *time.Timer // runs while messages are kept

	overdrawAt   time.Time // when a request may exceed the budget
	overdrawWait time.Duration
}

// newOwnership reads from the consumer how long a pin and a delivery last.
func (s *Source) newOwnership(ctx context.Context) (*ownership, error) {
	info, err := s.inspect(ctx)
	if err != nil {
		return nil, err
	}
	if !ordered(info.Config) {
		s.pin = ""
		return nil, ErrNotOrdered
	}
	s.expires = min(pullExpires, info.Config.PinnedTTL/pinParts)
	s.heartbeat = min(pullHeartbeat, s.expires/2)
	pollTimer := time.NewTimer(time.Hour)
	pollTimer.Stop()
	return &ownership{
		source: s, ackWait: info.Config.AckWait, kept: map[uint64]*Message{}, pollTimer: pollTimer, pause: firstPollInterval,
		overdrawWait: info.Config.AckWait,
	}, nil
}

func (s *Source) inspect(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	if !s.conn.Connected() {
		return nil, ErrNotConnected
	}
	ctx, cancel := context.WithTimeout(ctx, inspectTimeout)
	defer cancel()
	consumer, err := s.conn.js.Consumer(ctx, s.stream, s.consumer)
	if err != nil {
		return nil, mapError(err)
	}
	return consumer.CachedInfo(), nil
}

// handle keeps a message, or hands it over when the source is ready.
func (o *ownership) handle(m *Message, each func(*Message)) error {
	pin := m.raw.Header.Get(headerPin)
	m.raw.Header.Del(headerPin) // it is no part of the event
	switch {
	case pin == "":
		o.giveBack(m)
		return ErrNotOrdered
	case o.source.pin == "":
		o.source.pin = pin
	case o.source.pin != pin: // another request of ours, without the pin, has won a new one
		o.source.pin = pin
		o.giveBack(m)
		return errOwnershipLost
	}
	if o.ready {
		each(m)
		return nil
	}
	if len(o.kept) == 0 {
		o.extendedAt = time.Now()
		o.pollTimer.Reset(o.pause)
	}
	if before := o.kept[m.Sequence()]; before != nil {
		before.Release()
	}
	o.kept[m.Sequence()] = m // a second delivery replaces the first
	return nil
}

// due has a value when to check. It never has without ownership.
func (o *ownership) due() <-chan time.Time {
	if o == nil {
		return nil
	}
	return o.pollTimer.C
}

// check makes the source ready when the consumer has no more outstanding than what is kept
// here. Messages on their way count as outstanding already, so it is never ready too early.
func (o *ownership) check(ctx context.Context, each func(*Message)) {
	info, err := o.source.inspect(ctx)
	if err != nil || info.NumAckPending > len(o.kept) {
		o.extend(ctx)
		o.pause = min(2*o.pause, maxPollInterval, o.ackWait/4)
		o.pollTimer.Reset(o.pause)
		return
	}
	o.ready = true
	for _, sequence := range slices.Sorted(maps.Keys(o.kept)) {
		each(o.kept[sequence])
	}
	clear(o.kept)
}

// extend keeps what is kept here from being delivered once more.
func (o *ownership) extend(ctx context.Context) {
	if time.Since(o.extendedAt) < o.ackWait/4 {
		return
	}
	o.extendedAt = time.Now()
	for _, m := range o.kept {
		if err := m.Extend(ctx); err != nil {
			return // it is delivered again
		}
	}
}

// mayOverdraw reports whether a request may exceed the budget. The source never becomes ready without what earlier owners
// held, whatever memory that takes: it has fitted into theirs.
func (o *ownership) mayOverdraw(now time.Time) bool {
	return o != nil && !o.ready && !now.Before(o.overdrawAt)
}

// overdrawn schedules the next request that may exceed the budget. The server sends what earlier owners held before
// new messages. So after a new one it has nothing of theirs, until their calls end or AckWait is over.
func (o *ownership) overdrawn(m *Message) {
	if m.metadata.NumDelivered > 1 {
		o.overdrawAt = time.Time{}
		return
	}
	o.overdrawAt = time.Now().Add(o.overdrawWait)
	o.overdrawWait *= 2
}

// end gives back what was not handed over.
func (o *ownership) end() {
	o.pollTimer.Stop()
	for _, m := range o.kept {
		o.giveBack(m)
	}
}

// giveBack does not wait for a connection: without one the message comes again after AckWait.
func (o *ownership) giveBack(m *Message) {
	_ = o.source.conn.nc.Publish(m.raw.Reply, []byte(verbNak))
	m.Release()
}

// request adds the fields of a pull request for an ordered consumer.
func (o *ownership) request(body []byte) []byte {
	body = append(body, `,"group":"`+orderedGroup+`"`...)
	if o.source.pin != "" {
		body = append(body, `,"id":`...)
		body = strconv.AppendQuote(body, o.source.pin)
	}
	return body
}

// receiveOrdered is Receive for an ordered consumer.
func (s *Source) receiveOrdered(ctx context.Context, stop <-chan struct{}, each func(*Message)) error {
	for ctx.Err() == nil {
		err := s.receiveAsOwner(ctx, stop, each)
		switch {
		case errors.Is(err, errRepeat):
			pause(ctx, stop)
			continue
		case errors.Is(err, errOwnershipLost):
			return nil
		case err == nil:
			s.pin = "" // leave gives it up
		}
		return err
	}
	return nil
}

// receiveAsOwner ends with its inbox at the latest: what the server sent there last comes again, and newer messages on the next
// inbox would overtake it.
func (s *Source) receiveAsOwner(ctx context.Context, stop <-chan struct{}, each func(*Message)) error {
	link := s.conn.changes()
	o, err := s.newOwnership(ctx)
	switch {
	case errors.Is(err, ErrNotConnected):
		return s.awaitConnChange(ctx, stop, link)
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	defer o.end()
	return s.receive(ctx, stop, each, o)
}

// leave returns what to call, after an inbox was abandoned, with the pin of its last
// messages. A pin that no source uses would keep all sources waiting until it expires.
func (s *Source) leave(stopped bool) func(last string) {
	own := s.pin
	return func(last string) {
		if last == "" {
			last = own
		}
		if last != "" && (stopped || last != own) {
			s.unpin(last)
		}
	}
}

// unpin gives the pin up, if it is still the consumer's.
func (s *Source) unpin(pin string) {
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	info, err := s.inspect(ctx)
	if err != nil {
		return
	}
	for _, group := range info.PriorityGroups {
		if group.PinnedClientID == pin {
			_ = s.conn.request(ctx, "$JS.API.CONSUMER.UNPIN."+s.stream+"."+s.consumer, []byte(`{"group":"`+orderedGroup+`"}`))
		}
	}
}

// Use is what a stream holds and what bounds it.
type Use struct {
	Bytes, Events uint64
	MaxBytes      int64 // 0 for no bound
	MaxPerSubject int64 // events; 0 for no bound
}

// Use returns the size of a stream, in one request.
func (c *Conn) Use(ctx context.Context, stream string) (Use, error) {
	if !c.Connected() {
		return Use{}, fmt.Errorf("read size of stream %q: %w", stream, ErrNotConnected)
	}
	handle, err := c.js.Stream(ctx, stream)
	if err != nil {
		return Use{}, fmt.Errorf("read size of stream %q: %w", stream, mapError(err))
	}
	info := handle.CachedInfo()
	return Use{
		Bytes: info.State.Bytes, Events: info.State.Msgs,
		MaxBytes: max(info.Config.MaxBytes, 0), MaxPerSubject: max(info.Config.MaxMsgsPerSubject, 0),
	}, nil
}

// HeldBytes is what the messages take in their stream that a consumer has not settled. They are read until they
// take enough. Of those that were delivered, of which others may be settled, it is the share that is not.
func (c *Conn) HeldBytes(ctx context.Context, stream, consumer string, enough int64) (int64, error) {
	if !c.Connected() {
		return 0, fmt.Errorf("read stored size of consumer %q: %w", consumer, ErrNotConnected)
	}
	handle, err := c.js.Consumer(ctx, stream, consumer)
	if err != nil {
		return 0, fmt.Errorf("read stored size of consumer %q: %w", consumer, mapError(err))
	}
	info := handle.CachedInfo()
	var pending, delivered int64
	deliveries := 0
	for _, filter := range subjects(info.Config) {
		err := c.readStored(ctx, stream, filter, info.AckFloor.Stream+1, func(m storedMessage) bool {
			if m.sequence <= info.Delivered.Stream {
				delivered += m.size
				deliveries++
			} else {
				pending += m.size
			}
			return pending < enough
		})
		if err != nil {
			return 0, fmt.Errorf("read stored size of consumer %q: %w", consumer, err)
		}
	}
	if deliveries > info.NumAckPending {
		delivered = delivered / int64(deliveries) * int64(info.NumAckPending)
	}
	return pending + delivered, nil
}
