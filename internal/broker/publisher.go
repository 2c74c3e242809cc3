package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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

// Publisher stores events. Many goroutines may share one.
type Publisher struct {
	conn         *Conn
	js           jetstream.JetStream
	refused      error // why the client library rejected the options
	options      PublisherOptions
	pending      atomic.Int64
	pendingBytes atomic.Int64
}

// NewPublisher returns a publisher on the connection. Options that Validate
// refuses make every Publish fail.
func NewPublisher(c *Conn, o PublisherOptions) *Publisher {
	js, err := jetstream.New(c.nc,
		jetstream.WithPublishAsyncTimeout(o.Timeout),
		// Callers that gave up wait on in the library, so it has to take more
		// than we do before it holds callers up.
		jetstream.WithPublishAsyncMaxPending(2*o.MaxPending),
	)
	return &Publisher{conn: c, js: js, refused: errors.Join(err, flags.Validate(&o)), options: o}
}

// Publish returns nil after the stream has confirmed that the event is stored,
// or that it was stored before under the same subject, source and id. After ErrTimeout,
// ErrNotConnected or the context's end the event may be stored or not, and may
// be published again. It neither changes nor keeps the event.
func (p *Publisher) Publish(ctx context.Context, e *cloudevent.Event) error {
	message, err := encode(e)
	if err != nil {
		return err
	}
	if err := p.check(message); err != nil {
		return err
	}
	size := int64(message.Size())
	if !p.reserve(1, size) {
		return ErrBusy
	}
	defer p.release(1, size)
	confirmation, err := p.js.PublishMsgAsync(message)
	if err != nil {
		return mapError(err)
	}
	if err = p.await(ctx, confirmation); errors.Is(err, ErrInProcess) {
		errs := []error{err}
		p.awaitEarlier(ctx, []*nats.Msg{message}, errs)
		err = errs[0]
	}
	return err
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
	p.publishMessages(ctx, messages, errs)
	return errs
}

// publishMessages publishes those that have no error yet.
func (p *Publisher) publishMessages(ctx context.Context, messages []*nats.Msg, errs []error) {
	var failed error
	var slots, bytes int64
	for i, err := range errs {
		if err == nil {
			slots++
			bytes += int64(messages[i].Size())
		}
	}
	if p.reserve(slots, bytes) {
		defer p.release(slots, bytes)
	} else {
		failed = ErrBusy
	}
	confirmations := make([]jetstream.PubAckFuture, len(messages))
	for i, message := range messages {
		if errs[i] != nil {
			continue
		}
		if failed == nil {
			confirmations[i], failed = p.js.PublishMsgAsync(message)
			failed = mapError(failed)
		}
		errs[i] = failed
	}
	for i := range errs {
		if errs[i] == nil {
			errs[i] = p.await(ctx, confirmations[i])
		}
	}
	p.awaitEarlier(ctx, messages, errs)
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

func (p *Publisher) await(ctx context.Context, confirmation jetstream.PubAckFuture) error {
	select {
	case ack := <-confirmation.Ok():
		if p.options.Stream != "" && ack.Stream != p.options.Stream {
			return fmt.Errorf("%w: the event was stored in stream %q instead", ErrNoStream, ack.Stream)
		}
		return nil
	case err := <-confirmation.Err():
		return mapError(err)
	case <-ctx.Done():
		return mapError(ctx.Err())
	}
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
func (p *Publisher) awaitEarlier(ctx context.Context, messages []*nats.Msg, errs []error) {
	if !anyInProcess(errs) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.Timeout)
	defer cancel()
	for wait := shortestRepeatWait; anyInProcess(errs); wait = min(2*wait, longestRepeatWait) {
		select {
		case <-time.After(wait):
			p.repeat(ctx, messages, errs)
		case <-ctx.Done():
			return
		}
	}
}

// repeat publishes those that are in process, all at a time.
func (p *Publisher) repeat(ctx context.Context, messages []*nats.Msg, errs []error) {
	confirmations := make([]jetstream.PubAckFuture, len(messages))
	for i, message := range messages {
		if !errors.Is(errs[i], ErrInProcess) {
			continue
		}
		confirmation, err := p.js.PublishMsgAsync(message)
		if err != nil {
			errs[i] = mapError(err)
			continue
		}
		confirmations[i] = confirmation
	}
	for i, confirmation := range confirmations {
		if confirmation != nil {
			errs[i] = p.await(ctx, confirmation)
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
	p.publishMessages(ctx, messages, errs)
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
