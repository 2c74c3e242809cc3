package broker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// orderedGroup is the priority group of ordered consumers.
	orderedGroup = "ordered"
	// headerPin names whom the server has given a message of an ordered consumer to.
	headerPin = "Nats-Pin-Id"
	// statusWrongPin is the answer to a request with a pin that is no longer the consumer's.
	statusWrongPin = "423"
	// Waits between looks at what others still hold.
	firstLook = 10 * time.Millisecond
	lastLook  = time.Second
	// lookTimeout bounds one look, and giving up the pin.
	lookTimeout = 2 * time.Second
	// pinParts is how many requests are made, at least, in the time that a pin lasts.
	pinParts = 3
)

// errTurnOver means that the server has given the consumer to another source.
var errTurnOver = errors.New("another source receives from the consumer now")

// turn is the time in which one source alone receives from an ordered consumer. It begins
// when the server pins the source by sending it a message. The source keeps what it gets
// until it has everything that is outstanding, so that the sources before it hold nothing
// any more, and hands it over in the order of the stream.
type turn struct {
	source  *Source
	ackWait time.Duration
	ready   bool
	kept    map[uint64]*Message // by sequence, until the turn is ready
	touched time.Time           // when the kept ones were extended
	pause   time.Duration
	looks   *time.Timer // runs while messages are kept
}

// newTurn learns from the consumer how long a pin and a delivery last.
func (s *Source) newTurn(ctx context.Context) (*turn, error) {
	info, err := s.look(ctx)
	if err != nil {
		return nil, err
	}
	if !ordered(info.Config) {
		s.pin = ""
		return nil, ErrNotOrdered
	}
	s.expires = min(pullExpires, info.Config.PinnedTTL/pinParts)
	s.heartbeat = min(pullHeartbeat, s.expires/2)
	looks := time.NewTimer(time.Hour)
	looks.Stop()
	return &turn{source: s, ackWait: info.Config.AckWait, kept: map[uint64]*Message{}, looks: looks, pause: firstLook}, nil
}

func (s *Source) look(ctx context.Context) (*jetstream.ConsumerInfo, error) {
	if !s.conn.Connected() {
		return nil, ErrNotConnected
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	consumer, err := s.conn.js.Consumer(ctx, s.stream, s.consumer)
	if err != nil {
		return nil, mapError(err)
	}
	return consumer.CachedInfo(), nil
}

// take keeps a message, or hands it over when the turn is ready.
func (t *turn) take(m *Message, each func(*Message)) error {
	pin := m.raw.Header.Get(headerPin)
	m.raw.Header.Del(headerPin) // it is no part of the event
	switch {
	case pin == "":
		t.giveBack(m)
		return ErrNotOrdered
	case t.source.pin == "":
		t.source.pin = pin
	case t.source.pin != pin: // another request of ours, which was not told the pin, has won a new one
		t.source.pin = pin
		t.giveBack(m)
		return errTurnOver
	}
	if t.ready {
		each(m)
		return nil
	}
	if len(t.kept) == 0 {
		t.touched = time.Now()
		t.looks.Reset(t.pause)
	}
	if before := t.kept[m.Sequence()]; before != nil {
		before.Release()
	}
	t.kept[m.Sequence()] = m // a second delivery takes the place of the first
	return nil
}

// due tells when to check. It never does without a turn.
func (t *turn) due() <-chan time.Time {
	if t == nil {
		return nil
	}
	return t.looks.C
}

// check makes the turn ready when the consumer has no more outstanding than what is kept
// here. Messages on their way count as outstanding already, so it never errs on the wrong side.
func (t *turn) check(ctx context.Context, each func(*Message)) {
	info, err := t.source.look(ctx)
	if err != nil || info.NumAckPending > len(t.kept) {
		t.extend(ctx)
		t.pause = min(2*t.pause, lastLook, t.ackWait/4)
		t.looks.Reset(t.pause)
		return
	}
	t.ready = true
	for _, sequence := range slices.Sorted(maps.Keys(t.kept)) {
		each(t.kept[sequence])
	}
	clear(t.kept)
}

// extend keeps what is kept here from being delivered once more.
func (t *turn) extend(ctx context.Context) {
	if time.Since(t.touched) < t.ackWait/4 {
		return
	}
	t.touched = time.Now()
	for _, m := range t.kept {
		if err := m.Extend(ctx); err != nil {
			return // it is delivered again
		}
	}
}

// end gives back what was not handed over.
func (t *turn) end() {
	t.looks.Stop()
	for _, m := range t.kept {
		t.giveBack(m)
	}
}

// giveBack does not wait for a connection: without one AckWait has to do.
func (t *turn) giveBack(m *Message) {
	_ = t.source.conn.nc.Publish(m.raw.Reply, []byte(verbNak))
	m.Release()
}

// request is what a pull request for an ordered consumer says more.
func (t *turn) request(body []byte) []byte {
	body = append(body, `,"group":"`+orderedGroup+`"`...)
	if t.source.pin != "" {
		body = append(body, `,"id":`...)
		body = strconv.AppendQuote(body, t.source.pin)
	}
	return body
}

// receiveInTurn is Receive for an ordered consumer.
func (s *Source) receiveInTurn(ctx context.Context, stop <-chan struct{}, each func(*Message)) error {
	for ctx.Err() == nil {
		err := s.oneTurn(ctx, stop, each)
		switch {
		case errors.Is(err, errRepeat):
			pause(ctx, stop)
			continue
		case errors.Is(err, errTurnOver):
			return nil
		case err == nil:
			s.pin = "" // leave gives it up
		}
		return err
	}
	return nil
}

// oneTurn ends with its inbox at the latest: what the server sent there last comes again, and newer messages on the next
// inbox would overtake it.
func (s *Source) oneTurn(ctx context.Context, stop <-chan struct{}, each func(*Message)) error {
	link := s.conn.changes()
	t, err := s.newTurn(ctx)
	switch {
	case errors.Is(err, ErrNotConnected):
		return s.awaitLink(ctx, stop, link)
	case err != nil && ctx.Err() != nil:
		return nil
	case err != nil:
		return err
	}
	defer t.end()
	return s.receive(ctx, stop, each, t)
}

// leave returns what is to be told, after an inbox was abandoned, which pin its last
// messages had. A pin that nobody uses would keep all sources waiting until it expires.
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
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	info, err := s.look(ctx)
	if err != nil {
		return
	}
	for _, group := range info.PriorityGroups {
		if group.PinnedClientID == pin {
			_ = s.conn.request(ctx, "$JS.API.CONSUMER.UNPIN."+s.stream+"."+s.consumer, []byte(`{"group":"`+orderedGroup+`"}`))
		}
	}
}
