package broker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/rouse-run/rouse/internal/cloudevent"
	"github.com/rouse-run/rouse/internal/flags"
	"github.com/rouse-run/rouse/internal/routing"
)

// PublisherOptions bound the events that wait for their confirmation.
type PublisherOptions struct {
	// Stream that has to confirm; any when empty.
	Stream string
	// MaxPending events may wait for their confirmation; more get ErrBusy.
	MaxPending int
	// MaxPendingBytes limits how large they may be together, as they are stored; a single
	// one may be of any size. It has no flag of its own.
	MaxPendingBytes int64
	// Timeout after which a missing confirmation is an error.
	Timeout time.Duration
}

// DefaultPublisherOptions are for one process that publishes.
func DefaultPublisherOptions() PublisherOptions {
	const maxPending, maxPendingBytes = 1024, 64 << 20
	return PublisherOptions{Stream: DefaultStream, MaxPending: maxPending, MaxPendingBytes: maxPendingBytes, Timeout: 5 * time.Second}
}

// Flags implements flags.Options.
func (o *PublisherOptions) Flags(fs *flags.Set) {
	fs.Int(&o.MaxPending, "publish-max-pending", "events that may wait to be stored at a time").AtLeast(1)
	fs.Require(o.MaxPendingBytes >= 1, "--publish-max-bytes must be at least 1, is %d", o.MaxPendingBytes)
	fs.Duration(&o.Timeout, "publish-timeout", "how long an event may take to be stored").MoreThan(0)
}

// Publisher stores events. Many goroutines may share one, which stores their events together.
type Publisher struct {
	conn         *Conn
	refused      error // why the options cannot be used
	options      PublisherOptions
	rounds       *rounds
	pending      atomic.Int64
	pendingBytes atomic.Int64
}

// NewPublisher returns a publisher that lasts as long as its connection. Options that flags.Validate
// refuses make every Publish fail.
func NewPublisher(c *Conn, o PublisherOptions) *Publisher {
	p := &Publisher{conn: c, options: o, refused: flags.Validate(&o)}
	p.rounds = newRounds(o, c.nc.PublishMsg, c.nc.NewInbox()+".", func(done *publication) { p.release(int64(len(done.messages)), done.bytes) })
	if p.refused != nil {
		return p
	}
	if _, err := c.nc.Subscribe(p.rounds.replies+"*", p.rounds.confirmed); err != nil {
		p.refused = mapError(err)
		return p
	}
	c.mu.Lock()
	c.onDisconnect = append(c.onDisconnect, p.rounds.disconnected)
	c.mu.Unlock()
	c.OnConnect(func() { p.rounds.connected(c.nc.ConnectedServerVersion()) })
	return p
}

// Publish returns nil after the stream has confirmed that the event is stored,
// or that it was stored before under the same subject, source and id. After ErrTimeout,
// ErrNotConnected or the context's end the event may be stored or not, and may
// be published again. It neither changes nor keeps the event.
func (p *Publisher) Publish(ctx context.Context, e *cloudevent.Event) error {
	return p.PublishAll(ctx, []*cloudevent.Event{e})[0]
}

// PublishAll is Publish for several events, in their order and all at a time. It
// returns an error or nil for each. They wait for their confirmations together or
// all get ErrBusy, and behind one that could not be sent no other is: what is
// published again does not come behind its successors. What can never be stored
// holds up no other event.
func (p *Publisher) PublishAll(ctx context.Context, events []*cloudevent.Event) []error {
	errs := make([]error, len(events))
	messages := make([]*nats.Msg, len(events))
	for i, e := range events {
		if messages[i], errs[i] = encode(e); errs[i] == nil {
			errs[i] = p.check(messages[i])
		}
	}
	p.publishMessages(ctx, namespaceOf(events), messages, errs)
	return errs
}

func namespaceOf(events []*cloudevent.Event) string {
	if len(events) == 0 {
		return ""
	}
	return events[0].Publisher
}

// publishMessages publishes those that have no error yet, in the name of a namespace where that is known.
func (p *Publisher) publishMessages(ctx context.Context, namespace string, messages []*nats.Msg, errs []error) {
	p.publishThose(ctx, namespace, messages, errs, nil)
	p.awaitEarlier(ctx, namespace, messages, errs)
}

// publishThose publishes the messages with the error those, or without an error if it is nil.
func (p *Publisher) publishThose(ctx context.Context, namespace string, messages []*nats.Msg, errs []error, those error) {
	var places []int
	var chosen []*nats.Msg
	for i, err := range errs {
		if errors.Is(err, those) {
			places, chosen = append(places, i), append(chosen, messages[i])
		}
	}
	if len(chosen) == 0 {
		return
	}
	for i, err := range p.await(ctx, newPublication(cmp.Or(namespace, chosen[0].Subject), chosen, time.Now().Add(p.options.Timeout))) {
		errs[places[i]] = err
	}
}

// await publishes and waits for the confirmations.
func (p *Publisher) await(ctx context.Context, publication *publication) []error {
	if !p.reserve(int64(len(publication.messages)), publication.bytes) {
		return slices.Repeat([]error{ErrBusy}, len(publication.messages))
	}
	p.rounds.submit(publication)
	select {
	case <-publication.done:
		return publication.errs
	case <-ctx.Done():
		return p.rounds.withdraw(publication, mapError(ctx.Err()))
	}
}

// check returns an error if a message cannot be sent now.
func (p *Publisher) check(message *nats.Msg) error {
	switch {
	case p.refused != nil:
		return p.refused
	case !p.conn.Connected():
		return ErrNotConnected
	case int64(message.Size()) > p.largest():
		return ErrTooLarge
	default:
		return nil
	}
}

// reserve acquires slots among the events that may wait for their confirmation, and
// memory for what is sent of them, which may be several times what their publisher
// sent.
func (p *Publisher) reserve(slots, bytes int64) bool {
	count, size := p.pending.Add(slots), p.pendingBytes.Add(bytes)
	if count > int64(p.options.MaxPending) || size > p.options.MaxPendingBytes && size > bytes {
		p.release(slots, bytes)
		return false
	}
	return true
}

func (p *Publisher) release(slots, bytes int64) {
	p.pending.Add(-slots)
	p.pendingBytes.Add(-bytes)
}

// Waits between two questions whether an earlier publish is stored. A server takes
// some milliseconds for what it replicates.
const (
	shortestRepeatWait = 5 * time.Millisecond
	longestRepeatWait  = 200 * time.Millisecond
)

// awaitEarlier publishes again what the stream neither takes nor confirms, because an
// earlier publish of the same event is under way to all servers: then it is
// confirmed as a repeat, or stored if the earlier one failed. What is still under
// way after the timeout keeps ErrInProcess.
func (p *Publisher) awaitEarlier(ctx context.Context, namespace string, messages []*nats.Msg, errs []error) {
	if !anyInProcess(errs) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	for wait := shortestRepeatWait; anyInProcess(errs); wait = min(2*wait, longestRepeatWait) {
		select {
		case <-time.After(wait):
			p.publishThose(ctx, namespace, messages, errs, ErrInProcess)
		case <-ctx.Done():
			return
		}
	}
}

func anyInProcess(errs []error) bool {
	for _, err := range errs {
		if err != nil && errors.Is(err, ErrInProcess) {
			return true
		}
	}
	return false
}

const (
	// oldSource is the source of events whose type is in Kyma's first format. The
	// application is a part of the type.
	oldSource = "kyma"
	// oldMessageID ends what duplicates of such a copy are recognised by. It begins
	// with that of the event, because ids are unique within the event's source only.
	oldMessageID = "-old"
)

// PublishLegacy is Publish for an event that consumers may also subscribe to by a type
// in Kyma's first format, as routing.OldType makes it; none when empty. A copy
// with the same id goes there. The stream keeps what consumers wait for, so the
// copy is stored only where a consumer asks for it.
func (p *Publisher) PublishLegacy(ctx context.Context, e *cloudevent.Event, oldType string) error {
	message, err := encode(e)
	if err != nil {
		return err
	}
	messages := []*nats.Msg{message}
	if oldType != "" {
		messages = append(messages, oldCopy(e, message, oldType)...)
	}
	for _, m := range messages {
		if err := p.check(m); err != nil {
			return err
		}
	}
	errs := make([]error, len(messages))
	p.publishMessages(ctx, e.Publisher, messages, errs)
	return cmp.Or(errs...)
}

// oldCopy is the message for consumers of the old type: none where the server
// would not store it, because no consumer can ask for it either.
func oldCopy(e *cloudevent.Event, message *nats.Msg, oldType string) []*nats.Msg {
	subject := routing.SubjectPrefix + "." + oldType
	if checkSubject(subject) != nil {
		return nil
	}
	old := *e
	old.Source = oldSource
	copied := encodeAt(&old, address{subject: subject, wireType: oldType})
	copied.Header.Set(jetstream.MsgIDHeader, message.Header.Get(jetstream.MsgIDHeader)+oldMessageID)
	return []*nats.Msg{copied}
}
