package broker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/spf13/pflag"

	"github.com/rouse-run/rouse/internal/cloudevent"
)

// deadLetterReserve is what a dead letter adds to its event at most. Events that
// would not fit the server with it are refused, so that none is stored that
// could not become a dead letter.
const deadLetterReserve = 4 << 10

// PublisherOptions bound what waits for its confirmation.
type PublisherOptions struct {
	// Stream that has to confirm; any when empty.
	Stream string
	// MaxPending events may wait for their confirmation; more get ErrBusy.
	MaxPending int
	// Timeout after which a missing confirmation is an error.
	Timeout time.Duration
}

// DefaultPublisherOptions are for one process that publishes.
func DefaultPublisherOptions() PublisherOptions {
	// Each holds its event twice, as it came and as it is sent: with the largest that a bridge takes by default,
	// and some that callers gave up, that is about 300 MiB.
	const maxPending = 1024
	return PublisherOptions{Stream: DefaultStream, MaxPending: maxPending, Timeout: 5 * time.Second}
}

// BindFlags adds the flags; what o holds is their default.
func (o *PublisherOptions) BindFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.MaxPending, "publish-max-pending", o.MaxPending, "events that may wait to be stored at a time")
	fs.DurationVar(&o.Timeout, "publish-timeout", o.Timeout, "how long an event may take to be stored")
}

// Validate reports everything that is wrong with the options.
func (o *PublisherOptions) Validate() error {
	var errs []error
	if o.MaxPending < 1 {
		errs = append(errs, errors.New("--publish-max-pending must be at least 1"))
	}
	if o.Timeout <= 0 {
		errs = append(errs, errors.New("--publish-timeout must be positive"))
	}
	return errors.Join(errs...)
}

// Publisher stores events. Many goroutines may share one.
type Publisher struct {
	conn    *Conn
	js      jetstream.JetStream
	refused error // why the library did not take the options
	options PublisherOptions
	pending atomic.Int64
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
	return &Publisher{conn: c, js: js, refused: errors.Join(err, o.Validate()), options: o}
}

// Publish returns nil after the stream has confirmed that the event is stored,
// or that it was stored before under the same source and id. After ErrTimeout,
// ErrNotConnected or the context's end the event may be stored or not, and may
// be published again. It neither changes nor keeps the event.
func (p *Publisher) Publish(ctx context.Context, e *cloudevent.Event) error {
	confirmation, err := p.send(e)
	if err != nil {
		return err
	}
	return p.await(ctx, confirmation)
}

// PublishAll is Publish for several events, in their order and all at a time. It
// returns an error or nil for each.
func (p *Publisher) PublishAll(ctx context.Context, events []*cloudevent.Event) []error {
	errs := make([]error, len(events))
	confirmations := make([]jetstream.PubAckFuture, len(events))
	for i, e := range events {
		confirmations[i], errs[i] = p.send(e)
	}
	for i, confirmation := range confirmations {
		if errs[i] == nil {
			errs[i] = p.await(ctx, confirmation)
		}
	}
	return errs
}

// send gives the event to the server. What it returned no error for has to be
// awaited.
func (p *Publisher) send(e *cloudevent.Event) (jetstream.PubAckFuture, error) {
	message, err := encode(e)
	if err != nil {
		return nil, err
	}
	return p.sendMessage(message)
}

func (p *Publisher) sendMessage(message *nats.Msg) (jetstream.PubAckFuture, error) {
	if p.refused != nil {
		return nil, p.refused
	}
	if !p.conn.Connected() {
		return nil, ErrNotConnected
	}
	if p.tooLarge(message) {
		return nil, ErrTooLarge
	}
	if p.pending.Add(1) > int64(p.options.MaxPending) {
		p.pending.Add(-1)
		return nil, ErrBusy
	}
	confirmation, err := p.js.PublishMsgAsync(message)
	if err != nil {
		p.pending.Add(-1)
		return nil, mapError(err)
	}
	return confirmation, nil
}

func (p *Publisher) tooLarge(message *nats.Msg) bool {
	return int64(message.Size()) > p.conn.nc.MaxPayload()-deadLetterReserve
}

func (p *Publisher) await(ctx context.Context, confirmation jetstream.PubAckFuture) error {
	defer p.pending.Add(-1)
	select {
	case ack := <-confirmation.Ok():
		if p.options.Stream != "" && ack.Stream != p.options.Stream {
			return fmt.Errorf("%w: stream %q took the event", ErrNoStream, ack.Stream)
		}
		return nil
	case err := <-confirmation.Err():
		return mapError(err)
	case <-ctx.Done():
		return mapError(ctx.Err())
	}
}
