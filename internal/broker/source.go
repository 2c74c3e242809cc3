package broker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/routing"
)

const (
	// pullExpires bounds how long the server keeps a request of a source that is gone,
	// if the server did not see it go.
	pullExpires = 30 * time.Second
	// pullHeartbeat is the interval at which the server confirms that a request is pending.
	pullHeartbeat = 5 * time.Second
	// stallTimeout bounds how long a request may receive nothing: two heartbeats are missing then.
	stallTimeout = 2*pullHeartbeat + pullHeartbeat/2
	// repeatDelay is the pause before a request is repeated that the server has ended.
	repeatDelay = 20 * time.Millisecond
	// Bounds of one pull request. The server sends no more than the
	// consumer's MaxAckPending, so a request for more only saves requests.
	minBatch = 64
	maxBatch = 256
)

// Source receives the messages of one durable consumer. Any number of sources, in
// any number of processes, may share the consumer: each message goes to one, and
// the consumer's MaxAckPending bounds what all of them hold.
type Source struct {
	conn         *Conn
	stream       string
	consumer     string
	subscription types.NamespacedName
	uid          types.UID // of the Subscription, empty if not known
	redelivery   string    // the consumer's own subject for events that come back
	subject      string    // of the consumer's pull requests
	batch        int
	budget       MemoryBudget
	hold         *holder // nil for no limit
	expires      time.Duration
	heartbeat    time.Duration
	stallTimeout time.Duration
	ordered      bool
	pin          string // by which the server of an ordered consumer knows this source; kept over outages
}

// NewSource returns a source for the consumer, which need not exist yet, of a
// Subscription. It asks for about maxInFlight messages at a time, at most.
func NewSource(c *Conn, stream, consumer string, subscription types.NamespacedName, maxInFlight int) *Source {
	return &Source{
		conn:         c,
		stream:       stream,
		consumer:     consumer,
		subscription: subscription,
		redelivery:   routing.RedeliverySubject(consumer),
		subject:      "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer,
		batch:        min(max(2*maxInFlight, minBatch), maxBatch),
		budget:       unlimitedBudget{},
		expires:      pullExpires,
		heartbeat:    pullHeartbeat,
		stallTimeout: stallTimeout,
	}
}

// Of sets the UID of the source's Subscription. The source then skips retries of an earlier
// Subscription of the same name.
func (s *Source) Of(uid types.UID) *Source {
	s.uid = uid
	return s
}

// Within bounds the memory that messages of the source take, from the pull request
// until they are released. It returns the source.
func (s *Source) Within(budget MemoryBudget) *Source {
	s.budget = budget
	return s
}

// Holding bounds how many messages the source holds until they are released or detached; nil does not. It returns the source.
func (s *Source) Holding(limit HoldLimit) *Source {
	if limit != nil {
		s.hold = newHolder(limit)
	}
	return s
}

// NewOrderedSource returns a source for an ordered consumer. Of all sources of such a
// consumer one receives at a time, what it hands over is in the order of the stream, and
// it begins only when no other source holds a message of the consumer.
//
// Receive then also returns nil when it has lost the ownership of the consumer to another
// source. Whenever it returns, give back what is not being worked on, and change nothing
// in the order of what is: the next source waits for it. ErrNotOrdered means that the
// consumer was not made for this, or not yet.
func NewOrderedSource(c *Conn, stream, consumer string, subscription types.NamespacedName, maxInFlight int) *Source {
	s := NewSource(c, stream, consumer, subscription, maxInFlight)
	s.ordered = true
	return s
}

// Receive hands each message over, one call at a time, as the server sends them,
// until ctx ends or stop is closed. Then it returns nil, and what the server still
// sends is handed back to it, for other sources and at once.
//
// ErrConsumerNotFound means that the consumer is gone, ErrNotConnected that no
// connection came up for a while, ErrStalled that the server does not answer for
// the consumer. After any of them, and whatever happened to the connection in
// between, Receive may be called again; pause a little before. each may block,
// which only holds further messages up.
func (s *Source) Receive(ctx context.Context, stop <-chan struct{}, each func(*Message)) error {
	receive := s.receiveOrdered
	if !s.ordered {
		receive = func(ctx context.Context, stop <-chan struct{}, each func(*Message)) error {
			return s.repeat(ctx, stop, each, nil)
		}
	}
	if err := receive(ctx, stop, each); err != nil {
		return fmt.Errorf("receive from %q: %w", s.consumer, err)
	}
	return nil
}

// repeat receives until it is stopped, or until something is wrong that new requests
// do not put right.
func (s *Source) repeat(ctx context.Context, stop <-chan struct{}, each func(*Message), o *ownership) error {
	for ctx.Err() == nil {
		err := s.receive(ctx, stop, each, o)
		if !errors.Is(err, errRepeat) {
			return err
		}
		pause(ctx, stop)
	}
	return nil
}

// pause keeps a server that cannot answer for a while from being asked all the time.
func pause(ctx context.Context, stop <-chan struct{}) {
	timer := time.NewTimer(repeatDelay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-stop:
	case <-ctx.Done():
	}
}

// receive works on one inbox. It returns nil when it was stopped.
func (s *Source) receive(ctx context.Context, stop <-chan struct{}, each func(*Message), o *ownership) error {
	link := s.conn.changes() // before checking the connection, so that no change is missed
	if !s.conn.Connected() {
		return s.awaitConnChange(ctx, stop, link)
	}
	in, err := openInbox(s.conn, s.batch)
	if err != nil {
		return err
	}
	err = (&pullSubscription{source: s, inbox: in, each: each, ownership: o, batchSizer: newBatchSizer(s.batch)}).run(ctx, stop, link)
	switch {
	case errors.Is(err, errNoResponders):
		in.close()
		return s.noRespondersError(ctx)
	case errors.Is(err, ErrConsumerNotFound):
		in.close()
		return err
	default:
		in.abandon(s.leave(err == nil))
		return err
	}
}

// awaitConnChange waits for the connection to come or go.
func (s *Source) awaitConnChange(ctx context.Context, stop, link <-chan struct{}) error {
	timer := time.NewTimer(s.heartbeat)
	defer timer.Stop()
	select {
	case <-link:
		return errRepeat
	case <-timer.C:
		return ErrNotConnected
	case <-stop:
		return nil
	case <-ctx.Done():
		return nil
	}
}

// message wraps what the server delivered, or returns nil if it is not for this consumer:
// a wildcard matches what comes back to others, and a Subscription may have had the same name.
func (s *Source) message(raw *nats.Msg) *Message {
	if routing.IsRedelivery(raw.Subject) && (raw.Subject != s.redelivery || s.ofAnother(raw)) {
		_ = s.conn.nc.Publish(raw.Reply, []byte(verbAck)) // lost, it comes again
		return nil
	}
	metadata, err := raw.Metadata()
	if err != nil {
		return nil
	}
	return &Message{conn: s.conn, source: s, raw: raw, metadata: metadata}
}

func (s *Source) ofAnother(raw *nats.Msg) bool {
	uid := raw.Header.Get(headerUID)
	return uid != "" && s.uid != "" && uid != string(s.uid)
}

// noRespondersError finds out why the pull requests have no responders.
func (s *Source) noRespondersError(ctx context.Context) error {
	_, err := s.conn.Backlog(ctx, s.stream, s.consumer)
	switch {
	case err == nil:
		return ErrStalled
	case errors.Is(err, ErrNoStream):
		return fmt.Errorf("%w: %w", ErrConsumerNotFound, err)
	default:
		return err
	}
}

// inboxSlack is the capacity for the server's status messages in addition to the events.
const inboxSlack = 32

// inbox is the subscription that the answers to pull requests arrive on.
type inbox struct {
	conn         *Conn
	subscription *nats.Subscription
	prefix       string
	arrived      chan *nats.Msg
	requests     uint64
	pin          string // with which the last message came that was handed back
}

// openInbox has the capacity for so many messages: beyond that the client library drops them.
func openInbox(conn *Conn, capacity int) (*inbox, error) {
	prefix := conn.nc.NewInbox() + "."
	arrived := make(chan *nats.Msg, capacity+inboxSlack)
	subscription, err := conn.nc.ChanSubscribe(prefix+"*", arrived)
	if err != nil {
		return nil, mapError(err)
	}
	return &inbox{conn: conn, subscription: subscription, prefix: prefix, arrived: arrived}, nil
}

// request sends a pull request. Each has a reply subject of its own, by which the
// server distinguishes them.
func (in *inbox) request(subject string, body []byte) error {
	in.requests++
	return mapError(in.conn.nc.PublishRequest(subject, in.prefix+strconv.FormatUint(in.requests, 10), body))
}

// close ends the subscription when no request is open.
func (in *inbox) close() { _ = in.subscription.Unsubscribe() }

// abandon ends the subscription while requests may be open, and hands back, in the
// background, every message that still comes. When that is over the server has seen
// that the subscription is gone, has dropped the requests, and sends nothing more. (Servers of a
// cluster learn it one after the other: a message on its way just then waits for its AckWait.)
//
// Then it calls over with the pin of the last message, empty without one.
func (in *inbox) abandon(over func(pin string)) {
	drained := in.conn.inBackground(func() {
		in.drain()
		over(in.pin)
	})
	if !drained {
		in.close()
		in.returnRest()
	}
}

func (in *inbox) drain() {
	gone := in.subscription.StatusChanged(nats.SubscriptionClosed)
	if !in.conn.Connected() || in.subscription.Drain() != nil {
		in.close()
	}
	for {
		select {
		case raw := <-in.arrived:
			in.giveBack(raw)
		case <-gone:
			in.returnRest()
			return
		case <-in.conn.closed: // it ends its subscriptions without notice
			in.returnRest()
			return
		}
	}
}

func (in *inbox) returnRest() {
	for {
		select {
		case raw := <-in.arrived:
			in.giveBack(raw)
		default:
			return
		}
	}
}

// giveBack returns a message whose source has stopped, so that it need not wait for AckWait.
// Without a connection it comes again after AckWait.
func (in *inbox) giveBack(raw *nats.Msg) {
	if raw.Reply != "" {
		if pin := raw.Header.Get(headerPin); pin != "" {
			in.pin = pin
		}
		_ = in.conn.nc.Publish(raw.Reply, []byte(verbNak))
	}
}
